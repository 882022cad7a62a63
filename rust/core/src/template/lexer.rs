//! A template's source into tokens: text, delimiters, and what is between them.
//!
//! White space is as jinja2 handles it with `trim_blocks` and `lstrip_blocks`: a newline after a block or a comment
//! is not written, nor is white space before one that begins its line; `-` strips all, `+` nothing.

use super::error::{Fault, Problem};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Text(String),
    BlockBegin,
    BlockEnd,
    PrintBegin,
    PrintEnd,
    Name(String),
    Int(i64),
    Float(f64),
    Str(String),
    Sign(&'static str),
    End,
}

/// Signs, the longer ones first.
const SIGNS: [&str; 26] = [
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}",
    ">", "<", "=", ".", ":", "|", ",", ";",
];

/// The tokens of a source, each with the byte where it begins. Newlines are `\n` and the last one is gone already:
/// see [`normalized`].
pub(super) fn tokens(source: &str) -> Result<Vec<(Token, u32)>, Fault> {
    let mut lexer = Lexer { source, at: 0, tokens: Vec::new(), line_starts: true };
    lexer.run()?;
    lexer.push(Token::End, source.len());
    Ok(lexer.tokens)
}

/// The source with `\n` for all ends of lines, without the last one.
pub(super) fn normalized(source: &str) -> String {
    let mut source = source.replace("\r\n", "\n").replace('\r', "\n");
    if source.ends_with('\n') {
        source.pop();
    }
    source
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    tokens: Vec<(Token, u32)>,
    /// Whether what was read last ends with a newline.
    line_starts: bool,
}

/// White space of Python's `\s` and `str.isspace`.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

impl<'a> Lexer<'a> {
    fn push(&mut self, token: Token, at: usize) {
        self.tokens.push((token, at as u32));
    }

    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn run(&mut self) -> Result<(), Fault> {
        loop {
            let rest = self.rest();
            let is_begin =
                |at: &usize| matches!(rest.as_bytes().get(at + 1), Some(b'%' | b'{' | b'#'));
            let mut braces = rest.match_indices('{').map(|(at, _)| at);
            let Some(found) = braces.find(is_begin) else {
                if !rest.is_empty() {
                    self.push(Token::Text(rest.to_owned()), self.at);
                }
                return Ok(());
            };
            let kind = rest.as_bytes()[found + 1];
            let after = &rest[found + 2..];
            let sign = after.chars().next().filter(|c| matches!(c, '-' | '+'));
            self.text(&rest[..found], kind, sign);
            let begin = self.at + found;
            self.at = begin + 2 + sign.map_or(0, char::len_utf8);
            match kind {
                b'#' => self.comment(begin)?,
                b'%' if self.is_raw() => self.raw(begin)?,
                b'%' => {
                    self.push(Token::BlockBegin, begin);
                    self.expression(begin, "%}", Token::BlockEnd)?;
                }
                _ => {
                    self.push(Token::PrintBegin, begin);
                    self.expression(begin, "}}", Token::PrintEnd)?;
                }
            }
        }
    }

    /// Text before a delimiter, without the white space that the delimiter strips.
    fn text(&mut self, text: &str, kind: u8, sign: Option<char>) {
        let mut kept = text;
        if sign == Some('-') {
            kept = text.trim_end_matches(is_space);
        } else if sign.is_none() && kind != b'{' {
            let line = text.rfind('\n').map_or(0, |at| at + 1);
            if (line > 0 || self.line_starts) && text[line..].chars().all(is_space) {
                kept = &text[..line];
            }
        }
        if !kept.is_empty() {
            self.push(Token::Text(kept.to_owned()), self.at);
        }
    }

    /// Passes a closing delimiter and the white space that it takes, if it is here.
    fn close(&mut self, end: &str) -> bool {
        let rest = self.rest();
        let (sign, after) = match rest.strip_prefix(end) {
            Some(after) => (None, after),
            None => {
                let after = rest.get(1..).and_then(|rest| rest.strip_prefix(end));
                match (rest.chars().next(), after) {
                    (Some(sign @ '-'), Some(after)) => (Some(sign), after),
                    (Some(sign @ '+'), Some(after)) if end != "}}" => (Some(sign), after),
                    _ => return false,
                }
            }
        };
        let after = match sign {
            Some('-') => after.trim_start_matches(is_space),
            None if end != "}}" => after.strip_prefix('\n').unwrap_or(after),
            _ => after,
        };
        self.at = self.source.len() - after.len();
        self.line_starts = self.source[..self.at].ends_with('\n');
        true
    }

    fn comment(&mut self, begin: usize) -> Result<(), Fault> {
        if self.rest().is_empty() {
            // jinja2 takes one that begins where the template ends.
            return Ok(());
        }
        let Some(found) = self.rest().find("#}") else {
            return Err(Fault::new(begin, Problem::syntax("comment is open, expected `#}`")));
        };
        let end = self.at + found;
        // A sign before the end belongs to the delimiter.
        let is_sign = matches!(self.source.as_bytes()[end - 1], b'-' | b'+') && end > self.at;
        self.at = if is_sign { end - 1 } else { end };
        self.close("#}");
        Ok(())
    }

    /// Whether `{%` begins `{% raw %}`.
    fn is_raw(&self) -> bool {
        let rest = self.rest().trim_start_matches(is_space);
        let Some(rest) = rest.strip_prefix("raw") else { return false };
        let rest = rest.trim_start_matches(is_space);
        rest.starts_with("%}") || rest.starts_with("-%}")
    }

    fn raw(&mut self, begin: usize) -> Result<(), Fault> {
        let open = Fault::new(begin, Problem::syntax("`raw` is open, expected `{% endraw %}`"));
        let Some(end) = self.rest().find("%}") else { return Err(open) };
        let strips = self.rest()[..end].ends_with('-');
        self.at += end + 2;
        if strips {
            self.at = self.source.len() - self.rest().trim_start_matches(is_space).len();
        }
        let start = self.at;
        if start == self.source.len() {
            // As with comments.
            return Ok(());
        }
        let mut from = start;
        while let Some(found) = self.source[from..].find("{%") {
            let at = from + found;
            let after = &self.source[at + 2..];
            let sign = after.chars().next().filter(|c| matches!(c, '-' | '+'));
            let word = after[sign.map_or(0, char::len_utf8)..].trim_start_matches(is_space);
            let Some(rest) = word.strip_prefix("endraw") else {
                from = at + 2;
                continue;
            };
            let rest = rest.trim_start_matches(is_space);
            let back = self.at;
            self.at = self.source.len() - rest.len();
            if self.close("%}") {
                let end = std::mem::replace(&mut self.at, start);
                let starts = std::mem::replace(&mut self.line_starts, false);
                self.text(&self.source[start..at], b'%', sign);
                (self.at, self.line_starts) = (end, starts);
                return Ok(());
            }
            self.at = back;
            from = at + 2;
        }
        Err(open)
    }

    /// The tokens up to the closing delimiter.
    fn expression(&mut self, begin: usize, end: &str, token: Token) -> Result<(), Fault> {
        let mut open: Vec<&'static str> = Vec::new();
        loop {
            if open.is_empty() {
                let at = self.at;
                if self.close(end) {
                    self.push(token, at);
                    return Ok(());
                }
            }
            let rest = self.rest();
            let Some(first) = rest.chars().next() else {
                let what = if end == "%}" { "block" } else { "expression" };
                let problem = format!("{what} is open, expected `{end}`");
                return Err(Fault::new(begin, Problem::syntax(problem)));
            };
            let at = self.at;
            if is_space(first) {
                self.at += first.len_utf8();
            } else if first.is_ascii_digit() {
                self.number()?;
            } else if first == '_' || first.is_alphabetic() {
                let end =
                    rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len());
                self.at += end;
                self.push(Token::Name(rest[..end].to_owned()), at);
            } else if matches!(first, '\'' | '"') {
                self.string(first)?;
            } else if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
                match sign {
                    "(" => open.push(")"),
                    "[" => open.push("]"),
                    "{" => open.push("}"),
                    ")" | "]" | "}" => {
                        let expected = open.pop();
                        if expected != Some(sign) {
                            let problem = match expected {
                                Some(expected) => format!("found `{sign}`, expected `{expected}`"),
                                None => format!("found `{sign}`, which nothing opens"),
                            };
                            return Err(Fault::new(at, Problem::syntax(problem)));
                        }
                    }
                    _ => {}
                }
                self.at += sign.len();
                self.push(Token::Sign(sign), at);
            } else {
                let problem = format!("found {first:?}, expected an expression");
                return Err(Fault::new(at, Problem::syntax(problem)));
            }
        }
    }

    fn number(&mut self) -> Result<(), Fault> {
        let (rest, at) = (self.rest(), self.at);
        let digits = |from: usize| {
            let rest = &rest[from..];
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(rest.len());
            let taken = rest[..end].trim_end_matches('_').len();
            if rest.starts_with('_') { from } else { from + taken }
        };
        let radix = match rest.get(..2).map(str::to_ascii_lowercase).as_deref() {
            Some("0x") => 16,
            Some("0o") => 8,
            Some("0b") => 2,
            _ => 10,
        };
        let wrong = |problem: String| Fault::new(at, Problem::syntax(problem));
        if radix != 10 {
            let end = rest[2..].find(|c: char| !c.is_digit(radix) && c != '_');
            let end = end.map_or(rest.len(), |end| end + 2);
            let value = i64::from_str_radix(&rest[2..end].replace('_', ""), radix);
            let value =
                value.map_err(|_| wrong(format!("number `{}` is too large", &rest[..end])))?;
            self.at += end;
            self.push(Token::Int(value), at);
            return Ok(());
        }
        let whole = digits(0);
        let mut end = whole;
        if rest[end..].starts_with('.') && rest[end + 1..].starts_with(|c: char| c.is_ascii_digit())
        {
            end = digits(end + 1);
        }
        if rest[end..].starts_with(['e', 'E']) {
            let sign = usize::from(rest[end + 1..].starts_with(['+', '-']));
            if rest[end + 1 + sign..].starts_with(|c: char| c.is_ascii_digit()) {
                end = digits(end + 1 + sign);
            }
        }
        let number = rest[..end].replace('_', "");
        self.at += end;
        let token = if end == whole {
            let value =
                number.parse().map_err(|_| wrong(format!("number `{number}` is too large")))?;
            Token::Int(value)
        } else {
            Token::Float(number.parse().unwrap_or(f64::INFINITY))
        };
        self.push(token, at);
        Ok(())
    }

    fn string(&mut self, quote: char) -> Result<(), Fault> {
        let (rest, at) = (self.rest(), self.at);
        let mut text = String::new();
        let mut chars = rest[1..].char_indices();
        while let Some((nth, c)) = chars.next() {
            if c == quote {
                self.at += nth + 2;
                self.push(Token::Str(text), at);
                return Ok(());
            }
            if c != '\\' {
                text.push(c);
                continue;
            }
            let Some((nth, escaped)) = chars.next() else { break };
            let rest = &rest[1 + nth + escaped.len_utf8()..];
            let mut code = |digits: usize, radix: u32, from: &str| -> Option<usize> {
                let found = from.get(..digits)?;
                let value = u32::from_str_radix(found, radix).ok()?;
                text.push(char::from_u32(value)?);
                Some(digits)
            };
            let skip = match escaped {
                '\n' => Some(0),
                'n' => code(2, 16, "0a").map(|_| 0),
                't' => code(2, 16, "09").map(|_| 0),
                'r' => code(2, 16, "0d").map(|_| 0),
                'a' => code(2, 16, "07").map(|_| 0),
                'b' => code(2, 16, "08").map(|_| 0),
                'f' => code(2, 16, "0c").map(|_| 0),
                'v' => code(2, 16, "0b").map(|_| 0),
                '\\' | '\'' | '"' => {
                    text.push(escaped);
                    Some(0)
                }
                'x' => code(2, 16, rest),
                'u' => code(4, 16, rest),
                'U' => code(8, 16, rest),
                'N' => None,
                '0'..='7' => {
                    let more =
                        rest.bytes().take(2).take_while(|b| (b'0'..=b'7').contains(b)).count();
                    let digits = format!("{escaped}{}", &rest[..more]);
                    code(digits.len(), 8, &digits).map(|_| more)
                }
                other => {
                    text.push('\\');
                    text.push(other);
                    Some(0)
                }
            };
            let Some(skip) = skip else {
                let problem = format!("string has an escape `\\{escaped}` that is no character");
                return Err(Fault::new(self.at + 1 + nth, Problem::syntax(problem)));
            };
            for _ in 0..skip {
                chars.next();
            }
        }
        Err(Fault::new(at, Problem::syntax(format!("string is open, expected `{quote}`"))))
    }
}

//! Regular expressions for restricted strings, in JSON quotes or bare.
//!
//! In: `minLength`, `maxLength`, `pattern` and `format` of a schema. Out: a regular expression, and others
//! that they match too. Patterns are those of ECMA-262 that are regular: no looking around, no references back.

use std::fmt::Write;

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind, Look};
use serde_json::{Map, Value};

/// Keywords that restrict strings.
pub(crate) const KEYWORDS: [&str; 4] = ["pattern", "format", "minLength", "maxLength"];

/// A string of JSON. Half of a surrogate pair is no text.
const STRING: &str = r#""([^"\\\x00-\x1f\x7f]|\\(["/\\bfnrt]|u([0-9a-cefA-CEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})))*""#;
/// A character in a string whose characters count: of JSON and of Python, in which `\/` is two.
const CHARACTER: &str = r#"[^"\\\x00-\x1f\x7f]|\\(["\\bfnrt]|u([0-9a-cefA-CEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}))"#;

/// Most characters and classes of a pattern, with its repetitions written out.
const MAX_PATTERN: usize = 1000;
/// Greatest bound of a length.
const MAX_LENGTH: u64 = 100_000;

/// How a string is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// In quotes, with escapes.
    Json,
    /// As it is.
    Bare,
}

/// A string that nothing restricts.
pub(crate) fn any(style: Style) -> String {
    match style {
        Style::Json => STRING.to_owned(),
        Style::Bare => ".*".to_owned(),
    }
}

/// What the keywords of a schema leave of the strings: a regular expression, and others that they match too.
///
/// # Errors
/// The keyword that cannot be followed, and why.
pub(crate) fn restricted(
    style: Style,
    keys: &Map<String, Value>,
) -> Result<(String, Vec<String>), (&'static str, String)> {
    let text = |keyword: &'static str| keys.get(keyword).and_then(Value::as_str);
    let regex = match (text("pattern"), text("format")) {
        (Some(_), Some(_)) => {
            let problem = "cannot be followed beside `pattern`, expected one of the two";
            return Err(("format", problem.to_owned()));
        }
        (Some(pattern), None) => {
            let found = searched(pattern, style);
            Some(found.map_err(|problem| ("pattern", problem))?)
        }
        (None, Some(format)) => Some(of_format(format).ok_or_else(|| {
            let known = FORMATS.map(|(name, _)| name).join("`, `");
            ("format", format!("is `{format}`, expected one of `{known}`"))
        })?),
        (None, None) => None,
    };
    let length = |keyword: &'static str| match keys.get(keyword).map(Value::as_u64) {
        None => Ok(None),
        Some(Some(length)) if length <= MAX_LENGTH => Ok(Some(length)),
        Some(_) => Err((keyword, format!("is greater than {MAX_LENGTH}, expected less"))),
    };
    let (least, most) = (length("minLength")?.unwrap_or(0), length("maxLength")?);
    let Some(regex) = regex else {
        let most = most.map_or_else(String::new, |most| most.to_string());
        if most.parse().is_ok_and(|most: u64| most < least) {
            return Err(("maxLength", "is less than `minLength`, expected more".to_owned()));
        }
        return Ok((style.repeated(&format!("{{{least},{most}}}")), Vec::new()));
    };
    let regex = match style {
        Style::Json => format!("\"{regex}\""),
        Style::Bare => regex,
    };
    if least == 0 && most.is_none() {
        return Ok((regex, Vec::new()));
    }
    let most = most.map_or_else(String::new, |most| most.to_string());
    Ok((regex, vec![style.repeated(&format!("{{{least},{most}}}"))]))
}

impl Style {
    /// Strings of so many characters.
    fn repeated(self, count: &str) -> String {
        match self {
            Self::Json => format!("\"({CHARACTER}){count}\""),
            Self::Bare => format!(".{count}"),
        }
    }

    /// Writes a character.
    fn write(self, c: char, out: &mut String) {
        let c = c as u32;
        match (self, c) {
            (Self::Json, 0x22) => out.push_str(r#"\\""#),
            (Self::Json, 0x5C) => out.push_str(r"\\\\"),
            (Self::Json, 0x08) => out.push_str(r"\\b"),
            (Self::Json, 0x09) => out.push_str(r"\\t"),
            (Self::Json, 0x0A) => out.push_str(r"\\n"),
            (Self::Json, 0x0C) => out.push_str(r"\\f"),
            (Self::Json, 0x0D) => out.push_str(r"\\r"),
            (Self::Json, 0..0x20 | 0x7F) => {
                let _ = write!(out, r"\\u{c:04x}");
            }
            _ => {
                let _ = write!(out, r"\x{{{c:X}}}");
            }
        }
    }

    /// Whether a character is written as itself.
    fn is_plain(self, c: u32) -> bool {
        self == Self::Bare || (c >= 0x20 && !matches!(c, 0x22 | 0x5C | 0x7F))
    }
}

/// Checks that a pattern is one that can be followed.
///
/// # Errors
/// Why it cannot.
pub(crate) fn check_pattern(pattern: &str) -> Result<(), String> {
    searched(pattern, Style::Bare).map(drop)
}

/// The regular expression of texts in which a pattern is found.
fn searched(pattern: &str, style: Style) -> Result<String, String> {
    let parser = ParserBuilder::new().nest_limit(50).build();
    let cannot = |problem: String| {
        format!("is a pattern that cannot be followed: {problem}; expected a regular one")
    };
    let too_long = || cannot(format!("it has more than {MAX_PATTERN} characters and classes"));
    if pattern.len() > MAX_PATTERN * 8 {
        return Err(too_long());
    }
    let hir = { parser }
        .parse(&translated(pattern).map_err(cannot)?)
        .map_err(|error| cannot(error.to_string().lines().last().unwrap_or_default().to_owned()))?;
    if size(&hir) > MAX_PATTERN {
        return Err(too_long());
    }
    let mut out = String::new();
    search(&hir, style, &mut out)
        .map_err(|()| cannot("it has a place other than its beginning and its end".to_owned()))?;
    Ok(out)
}

/// A pattern of ECMA-262 in the syntax of Rust's.
fn translated(pattern: &str) -> Result<String, String> {
    const SPACE: &str =
        r"\t-\r \x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}";
    let mut out = String::new();
    let mut chars = pattern.chars().peekable();
    let mut is_in_class = false;
    while let Some(c) = chars.next() {
        let class = match (c, is_in_class) {
            ('\\', _) => match chars.next() {
                Some('d') => "0-9",
                Some('w') => "A-Za-z0-9_",
                Some('s') => SPACE,
                Some('D') => "^0-9",
                Some('W') => "^A-Za-z0-9_",
                Some('S') => {
                    let _ = write!(out, "[^{SPACE}]");
                    continue;
                }
                Some('/') => {
                    out.push('/');
                    continue;
                }
                Some('0') => {
                    out.push_str(r"\x00");
                    continue;
                }
                Some('b' | 'B') | None => return Err("it has a border of words".to_owned()),
                Some(c @ '1'..='9') => return Err(format!(r"it has the reference \{c}")),
                Some(c) if c.is_alphabetic() && !"tnvfrxupP".contains(c) => {
                    return Err(format!(r"it has the escape \{c}"));
                }
                Some(c) => {
                    out.extend(['\\', c]);
                    continue;
                }
            },
            ('[', false) => {
                is_in_class = true;
                out.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                if chars.peek() == Some(&']') {
                    return Err("it has a class without characters".to_owned());
                }
                continue;
            }
            (']', true) => {
                is_in_class = false;
                out.push(']');
                continue;
            }
            ('[' | '&' | '~', true) => {
                out.extend(['\\', c]);
                continue;
            }
            ('.', false) => r"^\n\r\x{2028}\x{2029}",
            ('(', false) => {
                out.push('(');
                if chars.next_if_eq(&'?').is_some() {
                    match chars.next() {
                        Some(':') => out.push_str("?:"),
                        _ => return Err("it has a group that is not plain".to_owned()),
                    }
                }
                continue;
            }
            (c, _) => {
                out.push(c);
                continue;
            }
        };
        let _ = write!(out, "[{class}]");
    }
    Ok(out)
}

/// Characters and classes, with repetitions written out.
fn size(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) | HirKind::Class(_) => 1,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Repetition(repeat) => {
            let times = repeat.max.unwrap_or(repeat.min).max(1) as usize;
            size(&repeat.sub).saturating_mul(times)
        }
        HirKind::Capture(capture) => size(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(size).fold(0, usize::saturating_add)
        }
    }
}

/// Writes the texts in which an expression is found; an error for a place within it.
fn search(hir: &Hir, style: Style, out: &mut String) -> Result<(), ()> {
    match hir.kind() {
        HirKind::Capture(capture) => search(&capture.sub, style, out),
        HirKind::Alternation(parts) => {
            for (at, part) in parts.iter().enumerate() {
                out.push(if at == 0 { '(' } else { '|' });
                search(part, style, out)?;
            }
            out.push(')');
            Ok(())
        }
        kind => {
            let parts = match kind {
                HirKind::Concat(parts) => &parts[..],
                _ => std::slice::from_ref(hir),
            };
            let is_look = |part: &Hir, look: Look| *part.kind() == HirKind::Look(look);
            let first = parts.iter().take_while(|part| is_look(part, Look::Start)).count();
            let parts = &parts[first..];
            let last = parts.iter().rev().take_while(|part| is_look(part, Look::End)).count();
            let (parts, _) = parts.split_at(parts.len() - last);
            let any = match style {
                Style::Json => format!("({CHARACTER})*"),
                Style::Bare => ".*".to_owned(),
            };
            if first == 0 {
                out.push_str(&any);
            }
            // An alternation that has places of its own is the whole of an expression.
            parts.iter().try_for_each(|part| write_hir(part, style, out))?;
            if last == 0 {
                out.push_str(&any);
            }
            Ok(())
        }
    }
}

/// Writes an expression without places.
fn write_hir(hir: &Hir, style: Style, out: &mut String) -> Result<(), ()> {
    match hir.kind() {
        HirKind::Empty => {}
        HirKind::Look(_) | HirKind::Class(Class::Bytes(_)) => return Err(()),
        HirKind::Literal(literal) => {
            let text = std::str::from_utf8(&literal.0).map_err(|_| ())?;
            text.chars().for_each(|c| style.write(c, out));
        }
        HirKind::Class(Class::Unicode(class)) => {
            let (mut plain, mut others) = (String::new(), String::new());
            for range in class.iter() {
                let (mut first, last) = (range.start() as u32, range.end() as u32);
                while first <= last {
                    if !style.is_plain(first) {
                        others.push('|');
                        style.write(char::from_u32(first).ok_or(())?, &mut others);
                        first += 1;
                        continue;
                    }
                    // The special ones are all below 0x80.
                    let special = (first..last.min(0x7F)).find(|&c| !style.is_plain(c + 1));
                    let end = special.unwrap_or(last);
                    let _ = write!(plain, r"\x{{{first:X}}}-\x{{{end:X}}}");
                    first = end + 1;
                }
            }
            match (plain.is_empty(), others.strip_prefix('|')) {
                (true, Some(others)) => {
                    let _ = write!(out, "({others})");
                }
                (false, Some(others)) => {
                    let _ = write!(out, "([{plain}]|{others})");
                }
                (false, None) => {
                    let _ = write!(out, "[{plain}]");
                }
                (true, None) => return Err(()),
            }
        }
        HirKind::Repetition(repeat) => {
            out.push('(');
            write_hir(&repeat.sub, style, out)?;
            let _ = match repeat.max {
                None => write!(out, "){{{},}}", repeat.min),
                Some(most) => write!(out, "){{{},{most}}}", repeat.min),
            };
        }
        HirKind::Capture(capture) => write_hir(&capture.sub, style, out)?,
        HirKind::Concat(parts) => {
            parts.iter().try_for_each(|part| write_hir(part, style, out))?;
        }
        HirKind::Alternation(parts) => {
            for (at, part) in parts.iter().enumerate() {
                out.push(if at == 0 { '(' } else { '|' });
                write_hir(part, style, out)?;
            }
            out.push(')');
        }
    }
    Ok(())
}

/// Formats of strings, by their names.
const FORMATS: [(&str, &str); 10] = [
    ("date", "{date}"),
    ("time", "{time}"),
    ("date-time", "{date}T{time}"),
    ("duration", r"P(([0-9]+W)|({days})({clock})?|{clock})"),
    ("uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"),
    ("ipv4", r"{byte}(\.{byte}){3}"),
    ("ipv6", "([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}"),
    ("hostname", r"{label}(\.{label}){0,3}"),
    ("email", r"[A-Za-z0-9_+-]{1,32}(\.[A-Za-z0-9_+-]{1,31})?@{label}(\.{label}){0,3}"),
    ("uri", r"https?://{label}(\.{label}){0,3}(:[1-9][0-9]{0,3})?(/[A-Za-z0-9._~-]*)*"),
];

/// Parts of formats. A date is one of a year's, the 29th of February one of a leap year's.
const PARTS: [(&str, &str); 6] = [
    (
        "{date}",
        "([0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)\
         |02-(0[1-9]|1[0-9]|2[0-8]))|([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)",
    ),
    (
        "{time}",
        r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])",
    ),
    ("{days}", "[0-9]+Y([0-9]+M([0-9]+D)?)?|[0-9]+M([0-9]+D)?|[0-9]+D"),
    ("{clock}", "T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S)"),
    ("{byte}", "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"),
    ("{label}", "[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?"),
];

/// The regular expression of a format, whose characters need no escapes in JSON.
fn of_format(name: &str) -> Option<String> {
    let (_, regex) = FORMATS.iter().find(|(known, _)| *known == name)?;
    let parts = PARTS.iter();
    let regex = parts.fold((*regex).to_owned(), |regex, (name, part)| regex.replace(name, part));
    Some(format!("({regex})"))
}

#[cfg(test)]
mod tests {
    use fancy_regex::Regex;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn admits(style: Style, keys: &Value, text: &str) -> bool {
        let (regex, also) = restricted(style, keys.as_object().unwrap()).unwrap();
        let written = if style == Style::Json { json!(text).to_string() } else { text.to_owned() };
        let matches = |regex: &str| {
            Regex::new(&format!(r"(?s)\A(?:{regex})\z")).unwrap().is_match(&written).unwrap()
        };
        matches(&regex) && also.iter().all(|regex| matches(regex))
    }

    const PATTERNS: [&str; 14] = [
        "^a+$",
        "b",
        "^[a-c]{2,3}$",
        "^(a|b\")",
        "c$|^a",
        "(^a$)",
        "^\\d+$",
        "^\\w*\\s\\S$",
        "[^\"]",
        "^.{2}$",
        "\\/|\\\\",
        "",
        "^[\\]\\[&]",
        "^é|\\u00e9$",
    ];

    proptest! {
        #[test]
        fn strings_within_restrictions_are_those_admitted(
            pattern in 0..PATTERNS.len(),
            least in proptest::option::of(0..4usize),
            most in proptest::option::of(4..6usize),
            text in "[ab\"\\\\/c1 é\n&\\[\\]]{0,6}",
        ) {
            let mut keys = json!({"pattern": PATTERNS[pattern]});
            let count = text.chars().count();
            let mut expected = least.is_none_or(|least| count >= least)
                && most.is_none_or(|most| count <= most);
            if let Some(least) = least {
                keys["minLength"] = least.into();
            }
            if let Some(most) = most {
                keys["maxLength"] = most.into();
            }
            let bare = json!({"minLength": least.unwrap_or(0), "maxLength": most.unwrap_or(9)});
            // Without regard to what Rust's own syntax says otherwise.
            let ours = PATTERNS[pattern].replace('&', "\\&").replace("\\/", "/");
            let ours = ours.replace("\\d", "[0-9]").replace("\\w", "[A-Za-z0-9_]");
            for style in [Style::Json, Style::Bare] {
                prop_assert_eq!(admits(style, &bare, &text), expected);
            }
            expected &= Regex::new(&ours).unwrap().is_match(&text).unwrap();
            for style in [Style::Json, Style::Bare] {
                prop_assert_eq!(admits(style, &keys, &text), expected, "{}", keys);
            }
        }
    }

    #[test]
    fn formats_have_their_texts() {
        for (format, good, bad) in [
            (
                "date",
                vec!["2024-02-29", "2000-02-29", "1999-12-31"],
                vec!["1900-02-29", "2023-04-31"],
            ),
            ("time", vec!["23:59:59Z", "01:02:03.5+01:30"], vec!["24:00:00Z", "01:02:03"]),
            ("date-time", vec!["2024-02-29T00:00:00Z"], vec!["2024-02-29"]),
            ("duration", vec!["P1Y2M3D", "PT5S", "P1DT2H", "P2W"], vec!["P", "PT", "P1W2D"]),
            ("uuid", vec!["01234567-89ab-cdef-0123-456789ABCDEF"], vec!["0123"]),
            ("ipv4", vec!["0.10.199.255"], vec!["1.2.3", "256.1.1.1", "01.1.1.1"]),
            ("email", vec!["a.b@example.com"], vec!["a@", "a..b@c"]),
            ("hostname", vec!["a-b.example"], vec!["-a", "a_b"]),
            ("uri", vec!["https://example.com/a"], vec!["example.com"]),
        ] {
            let keys = json!({"format": format});
            for style in [Style::Json, Style::Bare] {
                assert!(good.iter().all(|text| admits(style, &keys, text)), "{format}");
                assert!(!bad.iter().any(|text| admits(style, &keys, text)), "{format}");
            }
        }
    }

    #[test]
    fn patterns_that_are_not_regular_are_named() {
        for pattern in ["(?=a)", "(a)\\1", "a\\b", "(", "(a{100}){100}", "a^b", "(?i)a", "[]"] {
            let keys = json!({"pattern": pattern});
            let error = restricted(Style::Json, keys.as_object().unwrap()).unwrap_err();
            assert_eq!(error.0, "pattern", "{pattern}");
        }
        for keys in [
            json!({"format": "regex"}),
            json!({"maxLength": 1e9}),
            json!({"minLength": 3, "maxLength": 2}),
            json!({"format": "date", "pattern": "a"}),
        ] {
            assert!(restricted(Style::Json, keys.as_object().unwrap()).is_err(), "{keys}");
        }
    }
}

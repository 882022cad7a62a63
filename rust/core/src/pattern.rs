//! Patterns: text with named holes, `"{START}{role}\n{content}{STOP}\n"`, into pieces.
//!
//! Upper case names a control token of the file, lower case a field. Nothing needs escaping: a brace
//! that begins no known form is an ordinary character. An unknown word in braces is an error, so
//! that a typing error cannot become text.

/// A hole for a part of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Field {
    /// The message's text.
    Content,
    /// The message's name, a header word.
    Name,
    /// All calls of the message.
    Calls,
    /// The tools of the conversation.
    Tools,
    /// One call as a JSON object.
    Call,
    /// The language of a code call, a header word.
    Language,
    /// The source of a code call.
    Source,
    /// A system message inside a user's turn.
    System,
    /// The arguments of one call as pairs of key and value.
    Arguments,
    /// The id of the call that a result answers, or of a call, a header word.
    Id,
    /// The reasoning of the model before its answer.
    Reasoning,
    /// The channel of a turn, a header word that is read and ignored.
    Channel,
    /// The type of the text, a header word that is read and ignored.
    Type,
    /// The day of the conversation, a header word.
    Date,
    /// The reasoning effort: one of the file's words.
    Effort,
    /// Whether reasoning is asked for: a condition, without text.
    Thinking,
    /// The number of a call in its message, or of a result after it, from 1: written, and read past.
    Index,
}

/// Change of a field's text before it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) enum Filter {
    /// No change.
    #[default]
    None,
    /// Without white space at both ends.
    Trim,
    /// Without white space at its end.
    TrimEnd,
    /// Without spaces, U+0020 and nothing else, at its end.
    TrimEndSpaces,
    /// Without newlines at both ends.
    TrimLines,
    /// Without newlines at its beginning.
    TrimLinesStart,
    /// As JSON: objects, lists, numbers and words of JSON are unchanged, other text becomes a JSON
    /// string.
    Value,
    /// As a JSON string, also where the text is JSON.
    String,
    /// A day as `June 28, 2025`.
    MonthDay,
    /// A day as `28 June 2025`.
    DayMonth,
    /// A word with a capital first letter.
    Capital,
}

impl Filter {
    const ALL: [(&'static str, Self); 10] = [
        ("trim", Self::Trim),
        ("trim_end", Self::TrimEnd),
        ("trim_end_spaces", Self::TrimEndSpaces),
        ("trim_lines", Self::TrimLines),
        ("trim_lines_start", Self::TrimLinesStart),
        ("value", Self::Value),
        ("string", Self::String),
        ("month_day", Self::MonthDay),
        ("day_month", Self::DayMonth),
        ("capital", Self::Capital),
    ];

    fn parse(word: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|(name, _)| *name == word);
        known.map(|&(_, filter)| filter).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
            format!("has an unknown filter `{word}`, expected one of `{}`", known.join("`, `"))
        })
    }

    /// Whether the text is written as JSON, which ends by itself.
    pub(crate) fn is_json(self) -> bool {
        matches!(self, Self::Value | Self::String)
    }

    /// The form of `strftime` in which a day is written.
    pub(crate) fn day_form(self) -> Option<&'static str> {
        match self {
            Self::MonthDay => Some("%B %d, %Y"),
            Self::DayMonth => Some("%d %B %Y"),
            _ => None,
        }
    }

    /// The text without the white space that is not written.
    pub(crate) fn trim(self, text: &str) -> &str {
        match self {
            Self::Trim => text.trim_matches(is_template_space),
            Self::TrimEnd => text.trim_end_matches(is_template_space),
            Self::TrimEndSpaces => text.trim_end_matches(' '),
            Self::TrimLines => text.trim_matches('\n'),
            Self::TrimLinesStart => text.trim_start_matches('\n'),
            Self::None
            | Self::Value
            | Self::String
            | Self::MonthDay
            | Self::DayMonth
            | Self::Capital => text,
        }
    }
}

/// White space that templates strip: Unicode's, and the four separators that Python includes.
fn is_template_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// What a field holds, which decides how a reader finds its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldContent {
    /// Any text, up to the next piece of the pattern.
    Text,
    /// One or more of `[A-Za-z0-9_.:-]`.
    Word,
    /// A JSON object.
    Object,
    /// Pairs of key and value.
    Pairs,
    /// A list of call items.
    Items,
}

impl Field {
    const ALL: [(&'static str, Self, FieldContent); 17] = [
        ("content", Self::Content, FieldContent::Text),
        ("name", Self::Name, FieldContent::Word),
        ("calls", Self::Calls, FieldContent::Items),
        ("tools", Self::Tools, FieldContent::Text),
        ("call", Self::Call, FieldContent::Object),
        ("language", Self::Language, FieldContent::Word),
        ("source", Self::Source, FieldContent::Text),
        ("system", Self::System, FieldContent::Text),
        ("arguments", Self::Arguments, FieldContent::Pairs),
        ("id", Self::Id, FieldContent::Word),
        ("reasoning", Self::Reasoning, FieldContent::Text),
        ("channel", Self::Channel, FieldContent::Word),
        ("type", Self::Type, FieldContent::Word),
        ("date", Self::Date, FieldContent::Word),
        ("effort", Self::Effort, FieldContent::Word),
        ("thinking", Self::Thinking, FieldContent::Word),
        ("index", Self::Index, FieldContent::Word),
    ];

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(name, ..)| *name == word).map(|&(_, field, _)| field)
    }

    pub(crate) fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }

    pub(crate) fn holds(self) -> FieldContent {
        Self::ALL[self as usize].2
    }

    /// Whether the field is used only as a condition (`{?field:…?}`), and is not written itself.
    pub(crate) fn is_condition(self) -> bool {
        matches!(self, Self::Tools | Self::Thinking)
    }

    /// Whether the field is read and ignored.
    pub(crate) fn is_silent(self) -> bool {
        matches!(self, Self::Channel | Self::Type)
    }

    pub(crate) fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// Whether a text is white space only, as `{~}` reads it.
pub(crate) fn is_white(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_whitespace())
}

/// A node of a pattern. In a format file, control tokens (`C`) are names and literals (`L`) are text; in
/// a bound format, they are ids, and text with its breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece<C = Vec<String>, L = String> {
    /// `{A|B}`: the first is written, all are read.
    Control(C),
    /// Ordinary text.
    Literal(L),
    /// `{field}`, `{field:filter}`
    Field(Field, Filter),
    /// `{?field:…?}`: pieces that are written if the field is present.
    Optional {
        /// The field whose presence decides.
        field: Field,
        /// The pieces inside.
        pieces: Vec<Self>,
    },
    /// `{~}`: nothing is written, white space is read.
    Space,
    /// `{/}`: the texts before and after are encoded separately.
    Cut,
    /// `{*}`: any other content of a header is read. Rows with it are only read.
    Rest,
}

impl<C, L> Piece<C, L> {
    pub(crate) fn is_control(&self) -> bool {
        matches!(self, Self::Control(_))
    }

    /// Whether it is a field whose text is JSON.
    pub(crate) fn is_json(&self) -> bool {
        matches!(self, Self::Field(_, filter) if filter.is_json())
    }
}

impl Piece {
    /// Whether it is text of white space alone.
    pub(crate) fn is_space(&self) -> bool {
        matches!(self, Self::Literal(text) if is_white(text))
    }

    /// Number of bytes of a text, or number of names.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Control(names) => names.len(),
            Self::Literal(text) => text.len(),
            _ => 1,
        }
    }
}

/// The pieces of a tree in order of writing: an optional part, then the pieces inside it.
pub(crate) fn walk<C, L>(pieces: &[Piece<C, L>]) -> Walk<'_, C, L, impl Fn(Field) -> bool> {
    Walk {
        rest: pieces.iter(),
        outer: None,
        others: Vec::new(),
        is_present: |_| true,
        leaves_only: false,
    }
}

/// The pieces that are written where some fields are present, in order; without optional parts themselves.
pub(crate) fn written<C, L, F: Fn(Field) -> bool>(
    pieces: &[Piece<C, L>],
    is_present: F,
) -> Walk<'_, C, L, F> {
    Walk { rest: pieces.iter(), outer: None, others: Vec::new(), is_present, leaves_only: true }
}

/// An iterator over a tree, depth first.
pub(crate) struct Walk<'p, C, L, F> {
    rest: std::slice::Iter<'p, Piece<C, L>>,
    /// The rest of the part around the current one. A field of its own, since most patterns nest
    /// once: no allocation.
    outer: Option<std::slice::Iter<'p, Piece<C, L>>>,
    /// The rests of the parts around that one.
    others: Vec<std::slice::Iter<'p, Piece<C, L>>>,
    is_present: F,
    leaves_only: bool,
}

impl<'p, C, L, F: Fn(Field) -> bool> Iterator for Walk<'p, C, L, F> {
    type Item = &'p Piece<C, L>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(piece) = self.rest.next() else {
                self.rest = self.outer.take()?;
                self.outer = self.others.pop();
                continue;
            };
            let Piece::Optional { field, pieces } = piece else { return Some(piece) };
            if (self.is_present)(*field) {
                let rest = std::mem::replace(&mut self.rest, pieces.iter());
                self.others.extend(self.outer.replace(rest));
            }
            if !self.leaves_only {
                return Some(piece);
            }
        }
    }
}

/// Maximum length of a pattern in an error, in characters.
const SHOWN: usize = 60;

/// A pattern for an error, as spelled in a file. An optional part is shown by its field.
pub(crate) fn shown(pieces: &[Piece]) -> String {
    let one = |piece: &Piece| match piece {
        Piece::Control(names) => format!("{{{}}}", names.join("|")),
        Piece::Literal(literal) => literal.chars().take(SHOWN).collect(),
        Piece::Field(field, _) => format!("{{{}}}", field.name()),
        Piece::Optional { field, .. } => format!("{{?{}:…?}}", field.name()),
        Piece::Space => "{~}".to_owned(),
        Piece::Cut => "{/}".to_owned(),
        Piece::Rest => "{*}".to_owned(),
    };
    let text: String = walk(pieces).map(one).collect();
    if text.is_empty() {
        return "missing".to_owned();
    }
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{:?}…", &text[..at]),
        None => format!("{text:?}"),
    }
}

/// Reads a pattern. The error text continues after the pattern's key.
pub(crate) fn parse(pattern: &str) -> Result<Vec<Piece>, String> {
    let (pieces, rest) = parse_part(pattern, false)?;
    if rest.is_empty() {
        Ok(pieces)
    } else {
        Err("has `?}` without a guard before it, expected `{?…:` there".into())
    }
}

/// Reads pieces up to the end, or up to the `?}` of an optional part; returns them and the rest of the pattern.
fn parse_part(mut rest: &str, in_optional: bool) -> Result<(Vec<Piece>, &str), String> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    loop {
        let (piece, after) = if rest.is_empty() || rest.starts_with("?}") {
            (None, rest)
        } else if let Some((piece, after)) = hole(rest)? {
            (Some(piece), after)
        } else if let Some(after) = rest.strip_prefix("{?") {
            if in_optional {
                return Err("has a guard inside a guard, expected one after the other".into());
            }
            let (word, inside) =
                after.split_once(':').ok_or("has `{?` without `:`, expected `{?field:…?}`")?;
            let field = field(word)?;
            let (pieces, after) = parse_part(inside, true)?;
            (Some(Piece::Optional { field, pieces }), after)
        } else {
            let mut chars = rest.chars();
            literal.extend(chars.next());
            rest = chars.as_str();
            continue;
        };
        if !literal.is_empty() {
            pieces.push(Piece::Literal(std::mem::take(&mut literal)));
        }
        rest = after;
        match piece {
            Some(piece) => pieces.push(piece),
            None => break,
        }
    }
    match (in_optional, rest.strip_prefix("?}")) {
        (true, Some(after)) => Ok((pieces, after)),
        (true, None) => Err("has a guard `{?…:` without its end, expected `?}`".into()),
        (false, _) => Ok((pieces, rest)),
    }
}

/// Maximum number of alternative control tokens at a place.
const MAX_CHOICES: usize = 16;

/// Maximum length of the content of braces.
const MAX_HOLE_BYTES: usize = 256;

/// The field or token in braces at the beginning of `rest`, if there is one, and the text after it.
fn hole(rest: &str) -> Result<Option<(Piece, &str)>, String> {
    let Some(rest) = rest.strip_prefix('{') else { return Ok(None) };
    // Names are short: a distant brace closes something else.
    let Some(end) = rest.bytes().take(MAX_HOLE_BYTES).position(|byte| byte == b'}') else {
        return Ok(None);
    };
    let (inside, after) = (&rest[..end], &rest[end + 1..]);
    let piece = match inside {
        "~" => Piece::Space,
        "/" => Piece::Cut,
        "*" => Piece::Rest,
        _ if is_name(inside, |b| b.is_ascii_lowercase()) => {
            Piece::Field(field(inside)?, Filter::None)
        }
        _ if inside.split('|').all(|word| is_name(word, |b| b.is_ascii_uppercase())) => {
            let names: Vec<String> = inside.split('|').map(str::to_owned).collect();
            if names.len() > MAX_CHOICES {
                let count = names.len();
                return Err(format!(
                    "has a choice of {count} control tokens, expected at most {MAX_CHOICES}"
                ));
            }
            Piece::Control(names)
        }
        _ => match inside.split_once(':') {
            Some((word, filter))
                if [word, filter].iter().all(|w| is_name(w, |b| b.is_ascii_lowercase())) =>
            {
                Piece::Field(field(word)?, Filter::parse(filter)?)
            }
            _ => return Ok(None),
        },
    };
    Ok(Some((piece, after)))
}

/// Whether `word` can name a control token in a pattern.
pub(crate) fn is_control_name(word: &str) -> bool {
    is_name(word, |b| b.is_ascii_uppercase())
}

fn is_name(word: &str, letter: impl Fn(u8) -> bool) -> bool {
    let rest = |b: u8| letter(b) || b.is_ascii_digit() || b == b'_';
    word.bytes().next().is_some_and(&letter) && word.bytes().all(rest)
}

fn field(word: &str) -> Result<Field, String> {
    Field::parse(word).ok_or_else(|| {
        let known: Vec<&str> = Field::ALL.iter().map(|(name, ..)| *name).collect();
        format!("has an unknown field `{{{word}}}`, expected one of `{}`", known.join("`, `"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> Piece {
        Piece::Literal(text.into())
    }

    #[test]
    fn a_pattern_with_every_form() {
        let pieces = parse("{A|B}x{?name: n={name}?}{~}\n{/}{*}{content:trim}").unwrap();
        let expected = [
            Piece::Control(vec!["A".into(), "B".into()]),
            literal("x"),
            Piece::Optional {
                field: Field::Name,
                pieces: vec![literal(" n="), Piece::Field(Field::Name, Filter::None)],
            },
            Piece::Space,
            literal("\n"),
            Piece::Cut,
            Piece::Rest,
            Piece::Field(Field::Content, Filter::Trim),
        ];
        assert_eq!(pieces, expected);
    }

    #[test]
    fn a_brace_that_begins_no_form_is_text() {
        for text in ["{", "}", "{}", "{\"a\": 1}", "{ content }", "{Mixed}", "{a-b}"] {
            assert_eq!(parse(text).unwrap(), [literal(text)], "{text}");
        }
    }

    #[test]
    fn text_on_both_sides_of_an_optional_part_stays_apart() {
        let pieces = parse("a{?name:b?}c").unwrap();
        let optional = Piece::Optional { field: Field::Name, pieces: vec![literal("b")] };
        assert_eq!(pieces, [literal("a"), optional, literal("c")]);
    }

    #[test]
    fn a_walk_enters_the_optional_parts_of_present_fields() {
        let inner = Piece::Optional { field: Field::Type, pieces: vec![literal("c")] };
        let pieces = vec![literal("b"), inner, literal("d")];
        let outer = Piece::Optional { field: Field::Name, pieces };
        let tree = [literal("a"), outer, literal("e")];
        let text = |fields: &[Field]| -> String {
            let texts = written(&tree, |field| fields.contains(&field)).map(|piece| match piece {
                Piece::Literal(text) => text.as_str(),
                _ => "?",
            });
            texts.collect()
        };
        assert_eq!(text(&[]), "ae");
        assert_eq!(text(&[Field::Type]), "ae");
        assert_eq!(text(&[Field::Name]), "abde");
        assert_eq!(text(&[Field::Name, Field::Type]), "abcde");
        assert_eq!(walk(&tree).count(), 7);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (pattern, problem) in [
            ("{contnet}", "unknown field `{contnet}`"),
            ("{content:tirm}", "unknown filter `tirm`"),
            ("{?nmae:x?}", "unknown field `{nmae}`"),
            ("{?name:x", "without its end"),
            ("x?}", "without a guard"),
            ("{?name:{?name:x?}?}", "guard inside a guard"),
        ] {
            let error = parse(pattern).unwrap_err();
            assert!(error.contains(problem), "{pattern}: {error}");
        }
    }

    #[test]
    fn the_table_of_fields_stands_in_the_order_of_the_enum() {
        for (at, (name, field, _)) in Field::ALL.iter().enumerate() {
            assert_eq!((*field as usize, field.name()), (at, *name));
        }
    }
}

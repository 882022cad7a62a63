//! Decides whether a quote ends a string: by the string so far, and by the text after the quote.
//!
//! Models write shell commands and code with quotes that they do not escape, `f(a='sed -n '1p' x')`. A quote is text
//! where text goes on at once, and where it closes what another such quote opened, as within brackets of the string.
//! Where that is not certain it ends the string, and what follows decides whether the call is whole.

use crate::limits::HOLD_LIMIT;

/// What a string has had so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Inside {
    /// Whether it has an odd number of quotes.
    is_odd: bool,
    /// Number of its brackets `(`, `[`, `{` that are open.
    open: [u32; 3],
}

impl Inside {
    /// Reads a character of the string.
    pub(super) fn read(&mut self, c: char) {
        if let Some(kind) = kind_of(c) {
            let open = &mut self.open[kind];
            *open = if "([{".contains(c) { *open + 1 } else { open.saturating_sub(1) };
        }
    }

    /// Reads a quote that is text.
    pub(super) fn quote(&mut self) {
        self.is_odd = !self.is_odd;
    }
}

/// Which brackets a character is one of.
fn kind_of(c: char) -> Option<usize> {
    match c {
        '(' | ')' => Some(0),
        '[' | ']' => Some(1),
        '{' | '}' => Some(2),
        _ => None,
    }
}

/// The text after a quote, up to a decision.
#[derive(Debug, Clone)]
pub(super) struct Ending {
    /// The quote.
    pub(super) quote: char,
    /// The text after it.
    pub(super) held: String,
    inside: Inside,
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// After the quote.
    First,
    /// After white space.
    Spaces,
    /// In a word that may be the name of an argument. A comma before it may be missing.
    Word,
    /// After the word.
    Equals,
    /// After a comma between arguments.
    Comma,
    /// After a comma between items.
    Item,
    /// After its `=`.
    Value,
}

/// Whether the quote has ended the string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Yes,
    No,
    More,
}

impl Verdict {
    fn of(ends: bool) -> Self {
        if ends { Self::Yes } else { Self::No }
    }
}

impl Ending {
    pub(super) fn new(quote: char, inside: Inside) -> Self {
        Self { quote, held: String::new(), inside, place: Place::First }
    }

    /// Reads a character. `open` are the brackets that are open around the string, outermost first.
    pub(super) fn read(&mut self, c: char, open: &[u8]) -> Verdict {
        self.held.push(c);
        if self.held.len() > HOLD_LIMIT {
            return Verdict::Yes;
        }
        let (is_space, is_odd) = (c.is_ascii_whitespace(), self.inside.is_odd);
        let begins = c.is_alphabetic() || c == '_';
        let next = match self.place {
            Place::First | Place::Spaces if is_space => Place::Spaces,
            Place::First | Place::Spaces if c == ',' => return self.comma(open),
            Place::First | Place::Spaces if ")]}".contains(c) => {
                let open = kind_of(c).map_or(0, |kind| self.inside.open[kind]);
                return Verdict::of(!is_odd || open == 0);
            }
            Place::First | Place::Spaces if c == ':' => {
                return Verdict::of(open.last() == Some(&b'{') || !is_odd);
            }
            Place::First | Place::Spaces if begins && !is_odd => Place::Word,
            // Strings that Python joins.
            Place::Spaces if "+%\"'".contains(c) => return Verdict::of(!is_odd),
            Place::Word if begins || c.is_ascii_digit() => Place::Word,
            Place::Word | Place::Equals if is_space => Place::Equals,
            Place::Word | Place::Equals if c == '=' => Place::Value,
            Place::First | Place::Spaces | Place::Word | Place::Equals => return Verdict::No,
            place @ (Place::Comma | Place::Item) if is_space => place,
            Place::Comma if begins => Place::Word,
            Place::Comma => return Verdict::of(c == ')'),
            Place::Item => return Verdict::of(may_be_item(c)),
            // `==` compares.
            Place::Value => return Verdict::of(c != '='),
        };
        self.place = next;
        Verdict::More
    }

    fn comma(&mut self, open: &[u8]) -> Verdict {
        if !self.inside.is_odd {
            return Verdict::Yes;
        }
        if self.inside.open.iter().any(|&open| open > 0) {
            return Verdict::No;
        }
        self.place = if open.is_empty() { Place::Comma } else { Place::Item };
        Verdict::More
    }
}

/// Whether a value, a key, or the end of a container may begin with a character.
fn may_be_item(c: char) -> bool {
    c.is_ascii_digit() || "\"'[({])}-+.TFNtfn".contains(c)
}

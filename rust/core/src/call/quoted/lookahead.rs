//! Decides whether a string ends where it may: by the text after it, sign by sign.

/// A sign of the text of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Char(char),
    /// The token around strings.
    Quote,
}

impl Sign {
    /// The sign as text: the token around strings stands for a quote.
    pub(super) fn char(self) -> char {
        match self {
            Self::Char(c) => c,
            Self::Quote => '"',
        }
    }

    fn is_space(self) -> bool {
        matches!(self, Self::Char(c) if c.is_ascii_whitespace())
    }
}

/// A quote around a key or a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quote {
    /// The format's token.
    Token,
    Double,
    Single,
}

impl Quote {
    /// The quote that a character is; `c` is `"` or `'`.
    pub(super) fn of(c: char) -> Self {
        if c == '\'' { Self::Single } else { Self::Double }
    }

    /// Whether a sign is this quote.
    pub(super) fn is(self, sign: Sign) -> bool {
        match self {
            Self::Token => sign == Sign::Quote,
            Self::Double => sign == Sign::Char('"'),
            Self::Single => sign == Sign::Char('\''),
        }
    }

    /// The quote as text.
    pub(super) fn char(self) -> char {
        if self == Self::Single { '\'' } else { '"' }
    }
}

/// Whether a string has ended before the signs that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Yes,
    No,
    More,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// After the string, or after brackets: a comma or a further bracket comes. `closed` brackets were closed.
    After { closed: usize },
    /// After a comma.
    Comma,
    /// In a key without quotes of this many bytes.
    Key(usize),
    /// In a key with quotes.
    Quoted(Quote),
    /// After a key.
    Colon,
    /// After a key and its colon, before which a comma is missing.
    Value,
    /// After the brace that closes the arguments.
    Closed,
}

/// The state of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lookahead {
    place: Place,
    is_list: bool,
    /// Whether the string has an odd number of quotes in it.
    is_odd: bool,
    /// Whether no comma precedes the key.
    lacks_comma: bool,
}

impl Lookahead {
    pub(super) fn new(is_list: bool, is_odd: bool) -> Self {
        Self { place: Place::After { closed: 0 }, is_list, is_odd, lacks_comma: false }
    }

    /// Whether the arguments are closed if the string has ended: it has, unless another quote comes.
    pub(super) fn is_closed(&self) -> bool {
        self.place == Place::Closed
    }

    /// Reads a sign after the string; `is_quote`: it is a quote that could end the string. `open` are the brackets
    /// that are to be closed after the string, outermost first.
    pub(super) fn read(&mut self, sign: Sign, is_quote: bool, open: &[char]) -> Verdict {
        match (self.place, sign) {
            (Place::Closed, _) if is_quote => Verdict::No,
            (Place::Closed, _) => Verdict::More,
            (Place::After { .. } | Place::Comma | Place::Colon | Place::Value, sign)
                if sign.is_space() =>
            {
                Verdict::More
            }
            (Place::After { closed }, Sign::Char(c)) => self.after(c, closed, open),
            (Place::Comma, _) if self.is_list => self.value(sign),
            (Place::Comma, sign) => self.key(sign),
            (Place::Key(0..=super::MAX_KEY_BYTES) | Place::Colon, Sign::Char(':')) => self.colon(),
            (Place::Key(bytes @ 0..=super::MAX_KEY_BYTES), Sign::Char(c)) => {
                if sign.is_space() || c == '"' {
                    return self.go(Place::Colon);
                }
                if is_of_key(c) { self.go(Place::Key(bytes + c.len_utf8())) } else { Verdict::No }
            }
            (Place::Quoted(quote), sign) => {
                self.go(if quote.is(sign) { Place::Colon } else { Place::Quoted(quote) })
            }
            (Place::Value, sign) => verdict(begins_value(sign) || begins_word(sign)),
            _ => Verdict::No,
        }
    }

    fn go(&mut self, place: Place) -> Verdict {
        self.place = place;
        Verdict::More
    }

    fn after(&mut self, c: char, closed: usize, open: &[char]) -> Verdict {
        let left = open.len().saturating_sub(closed);
        let close = open[..left].last().copied().unwrap_or('}');
        match c {
            c if c == close && left == 0 => self.go(Place::Closed),
            c if c == close => {
                let outer = open[..left - 1].last();
                self.is_list = outer == Some(&']');
                self.is_odd = false;
                self.go(Place::After { closed: closed + 1 })
            }
            ',' => self.go(Place::Comma),
            c if closed == 0 && !self.is_list && is_of_key(c) => {
                self.lacks_comma = true;
                self.go(Place::Key(c.len_utf8()))
            }
            _ => Verdict::No,
        }
    }

    /// Reads the beginning of a key after a comma.
    fn key(&mut self, sign: Sign) -> Verdict {
        match sign {
            Sign::Quote => self.go(Place::Quoted(Quote::Token)),
            Sign::Char(c @ ('"' | '\'')) => self.go(Place::Quoted(Quote::of(c))),
            // A comma after the last member.
            Sign::Char('}') => Verdict::Yes,
            Sign::Char(c) if is_of_key(c) => self.go(Place::Key(c.len_utf8())),
            Sign::Char(_) => Verdict::No,
        }
    }

    /// Reads the beginning of a value of a list after a comma. It may lack its quotes, unless a quote within the
    /// string is still open.
    fn value(&self, sign: Sign) -> Verdict {
        let is_bare = matches!(sign, Sign::Char(c) if c.is_alphanumeric() && !self.is_odd);
        verdict(begins_value(sign) || sign == Sign::Char(']') || is_bare)
    }

    fn colon(&mut self) -> Verdict {
        if self.lacks_comma { self.go(Place::Value) } else { Verdict::Yes }
    }
}

fn verdict(is_end: bool) -> Verdict {
    if is_end { Verdict::Yes } else { Verdict::No }
}

/// Whether a value begins with a sign, as the format or JSON writes it.
fn begins_value(sign: Sign) -> bool {
    match sign {
        Sign::Quote => true,
        Sign::Char(c) => c.is_ascii_digit() || "-\"'{[".contains(c),
    }
}

/// Whether a literal of JSON or Python may begin with a sign.
fn begins_word(sign: Sign) -> bool {
    matches!(sign, Sign::Char('t' | 'f' | 'n' | 'T' | 'F' | 'N'))
}

/// Whether a key without quotes may hold a character.
fn is_of_key(c: char) -> bool {
    !c.is_whitespace() && !matches!(c, '"' | '\'') && !super::ENDS.contains(&c)
}

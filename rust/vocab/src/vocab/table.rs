//! The tokens of a vocabulary file, before a text encoder is built of them.
//!
//! Readers fill a [`Table`], then the added tokens of other files are applied to it. So the encoder is
//! built once, when the set of control tokens is known.

use std::borrow::Cow;

use hashbrown::{HashMap, HashSet};

use super::TokenId;
use super::configs::Added;
use super::model::{Policy, Strips};
use crate::bpe::SPACE_MARK;
use crate::error::{Error, Result};

/// Largest number of ids: four times that of real vocabularies. A single large id in a file would
/// otherwise allocate a table of its size.
pub(super) const MAX_IDS: usize = 1 << 20;

/// Longest token in bytes: real ones have at most 384, and tables grow with the square of the length.
pub(super) const MAX_TOKEN_BYTES: usize = 1024;

/// Type of a token in a file: the types of SentencePiece, which GGUF uses too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenType {
    Normal,
    /// Text that no merge makes or uses: in byte-level vocabularies, a token that is not spelled in
    /// the alphabet of bytes.
    Raw,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

impl TokenType {
    /// The type of a number in a SentencePiece or GGUF file.
    pub(super) fn of_number(number: u64) -> Option<Self> {
        Some(match number {
            1 => Self::Normal,
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            5 => Self::Unused,
            6 => Self::Byte,
            _ => return None,
        })
    }
}

/// One token of a file.
#[derive(Debug, Clone)]
pub(super) struct Row<'a> {
    /// Bytes of the token; empty for an id without a token.
    pub(super) text: Cow<'a, [u8]>,
    pub(super) score: f32,
    pub(super) kind: TokenType,
    /// Byte offset in the file, if known.
    pub(super) offset: Option<usize>,
}

impl<'a> Row<'a> {
    pub(super) fn new(text: impl Into<Cow<'a, [u8]>>, kind: TokenType) -> Self {
        Self { text: text.into(), score: 0.0, kind, offset: None }
    }

    /// Row of an id without a token.
    fn absent() -> Self {
        Self::new(&b""[..], TokenType::Unused)
    }

    /// The type by which a token is taken into the tables.
    pub(super) fn kind_for(&self, id: TokenId, policy: &Policy<'_>) -> TokenType {
        if policy.is_withheld(id) { TokenType::Control } else { self.kind }
    }

    pub(super) fn error(&self, problem: String) -> Error {
        Error { offset: self.offset, component: "pieces", problem }
    }

    /// Spelling, for error texts and as the name of a control token.
    pub(super) fn spelling(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.text)
    }

    /// Refuses tokens longer than [`MAX_TOKEN_BYTES`].
    pub(super) fn check_length(&self) -> Result<()> {
        match self.text.len() {
            0 => Err(self.error("an empty piece".into())),
            length if length > MAX_TOKEN_BYTES => {
                Err(self.error(format!("a piece of {length} bytes, at most {MAX_TOKEN_BYTES}")))
            }
            _ => Ok(()),
        }
    }
}

/// The tokens of a vocabulary by id, and further spellings of some.
#[derive(Debug, Default)]
pub(super) struct Table<'a> {
    pub(super) rows: Vec<Row<'a>>,
    /// Further spellings of control tokens, in addition to those of their rows.
    pub(super) aliases: Vec<(String, TokenId)>,
    pub(super) strips: HashMap<TokenId, Strips>,
}

impl<'a> Table<'a> {
    /// Puts a token at an id; ids before it without a token are unused.
    pub(super) fn put(&mut self, id: TokenId, row: Row<'a>) -> Result<()> {
        let at = usize::try_from(id).ok().filter(|&at| at < MAX_IDS).ok_or_else(|| {
            row.error(format!("`{}` has id {id}, expected one below {MAX_IDS}", row.spelling()))
        })?;
        if at >= self.rows.len() {
            self.rows.resize_with(at + 1, Row::absent);
        }
        if !self.rows[at].text.is_empty() {
            let problem =
                format!("`{}` and `{}` have id {id}", self.rows[at].spelling(), row.spelling());
            return Err(row.error(problem));
        }
        self.rows[at] = row;
        Ok(())
    }

    /// Applies the added tokens of other files: ordinary tokens become control, new tokens are appended,
    /// and other spellings of control tokens become aliases.
    ///
    /// # Errors
    /// [`Error`] for an added token whose id is another token's, or whose spelling is control
    /// under another id.
    pub(super) fn apply(&mut self, added: &'a Added, policy: &Policy<'_>) -> Result<()> {
        for token in &added.tokens {
            let at = usize::try_from(token.id).unwrap_or(usize::MAX);
            match self.rows.get_mut(at) {
                Some(row) if !row.text.is_empty() => {
                    let same = spells(&row.text, &token.spelling);
                    let is_control = match row.kind {
                        TokenType::Normal | TokenType::Raw | TokenType::Byte => false,
                        TokenType::UserDefined => !policy.is_text(&row.spelling(), false),
                        _ => true,
                    };
                    if same && matches!(row.kind, TokenType::Normal | TokenType::Raw) {
                        if !policy.is_text(&token.spelling, false) {
                            row.kind = TokenType::UserDefined;
                        }
                    } else if !same && is_control {
                        self.aliases.push((token.spelling.clone(), token.id));
                    } else if !same {
                        let found = row.spelling();
                        let problem =
                            format!("`{}` has id {at}, which is `{found}`", token.spelling);
                        return Err(Error::new(token.file, problem));
                    }
                }
                _ => {
                    self.put(
                        token.id,
                        Row::new(token.spelling.as_bytes(), TokenType::UserDefined),
                    )?;
                }
            }
            if let Some(strips) = token.strips.filter(|&strips| strips != Strips::default()) {
                self.strips.insert(token.id, strips);
            }
        }
        self.make_control(added, policy);
        self.check_control(added)
    }

    /// Ordinary tokens that are named as special ones become control.
    fn make_control(&mut self, added: &Added, policy: &Policy<'_>) {
        let names: HashSet<&[u8]> = added
            .names
            .iter()
            .filter(|name| !policy.is_text(name, true))
            .map(String::as_bytes)
            .collect();
        if names.is_empty() {
            return;
        }
        for row in &mut self.rows {
            let is_text = matches!(row.kind, TokenType::Normal | TokenType::Raw);
            if is_text && names.contains(&*row.text) {
                row.kind = TokenType::UserDefined;
            }
        }
    }

    /// No spelling of an added token may be that of another control token.
    fn check_control(&self, added: &Added) -> Result<()> {
        let ids: HashMap<&[u8], &_> =
            added.tokens.iter().map(|token| (token.spelling.as_bytes(), token)).collect();
        if ids.is_empty() {
            return Ok(());
        }
        for (at, row) in self.rows.iter().enumerate() {
            let is_control =
                !matches!(row.kind, TokenType::Normal | TokenType::Raw | TokenType::Byte);
            if let Some(token) = ids.get(&*row.text)
                && is_control
                && token.id as usize != at
            {
                let problem =
                    format!("`{}` has id {}, in the vocabulary {at}", token.spelling, token.id);
                return Err(Error::new(token.file, problem));
            }
        }
        Ok(())
    }

    /// The spelling of every control token, aliases included; `ids` are those of the rows.
    pub(super) fn spellings(&self, ids: impl Iterator<Item = TokenId>) -> Vec<(String, TokenId)> {
        let of_row = |id: TokenId| {
            let row = self.rows.get(usize::try_from(id).ok()?)?;
            (!row.text.is_empty()).then(|| (row.spelling().into_owned(), id))
        };
        ids.filter_map(of_row).chain(self.aliases.iter().cloned()).collect()
    }
}

/// Whether a token of a file and a spelling beside it are the same: spaces may be marked.
pub(super) fn spells(text: &[u8], spelling: &str) -> bool {
    text == spelling.as_bytes()
        || std::str::from_utf8(text).is_ok_and(|text| text.replace(SPACE_MARK, " ") == spelling)
}

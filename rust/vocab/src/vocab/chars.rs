//! Models from pieces of characters, shared by SentencePiece files and GGUF files of its kind.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::model::{Engine, Findings, Model, Policy};
use super::normalize::Normalizer;
use super::table::{Table, TokenType};
use super::tokens::{TokenKind, Tokens};
use super::{DummyPrefix, TokenId};
use crate::bpe::{CharBpe, ListedMerge, Piece, PieceKind, SPACE_MARK};
use crate::error::{Error, Result};

/// Normalisation of text before its characters merge.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spaces {
    /// A space is added at the beginning.
    pub(super) add_dummy_prefix: bool,
    /// Runs of spaces become one space, and spaces at both ends are removed.
    pub(super) remove_extra: bool,
    /// Pieces that are matched as a whole spell a space as text does: llama.cpp's files. If spaces
    /// of the text are marked before the search, a piece with a bare space never matches.
    pub(super) bare_in_whole: bool,
}

/// Builds the tables of a vocabulary. Every rule here is one of sentencepiece 0.2.3's BPE encoder. With
/// `merges`, pairs of ids, these pairs merge, earlier ones first, and scores are ignored.
pub(super) fn build(
    kind: &'static str,
    table: Table<'_>,
    spaces: Spaces,
    merges: Option<Vec<(TokenId, TokenId)>>,
    policy: &Policy<'_>,
) -> Result<Model> {
    let mut tokens = Tokens::default();
    let mut control = Vec::new();
    let mut text = Vec::with_capacity(table.rows.len());
    let mut byte_ids = [-1; 256];
    let mut seen = HashSet::with_capacity(table.rows.len());
    for (id, row) in table.rows.iter().enumerate() {
        let id = id as TokenId;
        if row.text.is_empty() {
            tokens.push(b"", TokenKind::Unused);
            continue;
        }
        row.check_length()?;
        let spelled = std::str::from_utf8(&row.text)
            .map_err(|_| row.error("a piece that is not UTF-8".into()))?;
        if !seen.insert(spelled) {
            return Err(row.error(format!("`{spelled}` stands twice")));
        }
        if row.score.is_nan() {
            return Err(row.error(format!("the score of `{spelled}` is not a number")));
        }
        let entry = |kind| Piece { id, text: spelled, score: row.score, kind };
        match row.kind_for(id, policy) {
            TokenType::Byte => {
                let byte =
                    byte_of(spelled).ok_or_else(|| row.error(format!("byte piece `{spelled}`")))?;
                byte_ids[usize::from(byte)] = id;
                tokens.push(&[byte], TokenKind::Byte);
            }
            TokenType::UserDefined if policy.is_text(spelled, false) => {
                if spaces.bare_in_whole || !spelled.contains(' ') {
                    text.push(entry(PieceKind::Whole));
                }
                tokens.push_marked(spelled);
            }
            TokenType::Unknown | TokenType::Control | TokenType::UserDefined => {
                control.push(id);
                tokens.push(&row.text, TokenKind::Control);
            }
            // NUL as a piece of its own is never produced: sentencepiece 0.2.3 gives the byte's id
            // (InternLM2: 3, not 354), earlier ones gave the piece's.
            TokenType::Normal | TokenType::Raw | TokenType::Unused if spelled == "\0" => {
                tokens.push(b"\0", TokenKind::Text);
            }
            // Spaces are escaped before pieces are looked up, so a piece with a bare space never
            // matches.
            TokenType::Normal | TokenType::Raw | TokenType::Unused if spelled.contains(' ') => {
                tokens.push(&row.text, TokenKind::Text);
            }
            TokenType::Normal | TokenType::Raw => {
                text.push(entry(PieceKind::Normal));
                tokens.push_marked(spelled);
            }
            TokenType::Unused => {
                text.push(entry(PieceKind::Unused));
                tokens.push(b"", TokenKind::Unused);
            }
        }
    }
    if let Some(byte) = byte_ids.iter().position(|&id| id < 0) {
        let problem = format!("no byte piece `<0x{byte:02X}>`: text would be lost");
        return Err(Error::new("pieces", problem));
    }
    let is_space =
        |piece: &Piece<'_>| piece.kind != PieceKind::Unused && piece.text.chars().eq([SPACE_MARK]);
    if !text.iter().any(is_space) {
        return Err(Error::new("pieces", "no piece for the space, U+2581"));
    }
    let engine = match merges {
        None => CharBpe::new(&text, &byte_ids)?,
        Some(merges) => CharBpe::with_listed_merges(&text, &listed(&text, &merges), &byte_ids)?,
    };
    Ok(Model {
        kind,
        engine: Engine::Chars(Box::new(engine)),
        tokens: Arc::new(tokens),
        spellings: table.spellings(control.into_iter()),
        strips: table.strips,
        dummy_prefix: if spaces.add_dummy_prefix {
            DummyPrefix::EveryRun
        } else {
            DummyPrefix::Never
        },
        normalizer: if spaces.remove_extra {
            Normalizer::CollapseSpaces
        } else {
            Normalizer::Identity
        },
        space_mark: true,
        findings: Findings::of_file("not at all: characters merge in all of a text"),
    })
}

/// The merges of pieces. Control tokens are not among the pieces, so their merges are left out.
fn listed(pieces: &[Piece<'_>], merges: &[(TokenId, TokenId)]) -> Vec<ListedMerge> {
    let merging = pieces.iter().zip(0..).filter(|(piece, _)| piece.kind == PieceKind::Normal);
    let places: HashMap<TokenId, u32> = merging.map(|(piece, at)| (piece.id, at)).collect();
    let place = |id: &TokenId| places.get(id).copied();
    let both = |(left, right): &_| Some(ListedMerge { left: place(left)?, right: place(right)? });
    merges.iter().filter_map(both).collect()
}

/// The byte that `<0x0A>` spells.
fn byte_of(text: &str) -> Option<u8> {
    let hex = text.strip_prefix("<0x")?.strip_suffix('>')?;
    let upper = hex.bytes().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b));
    if hex.len() == 2 && upper { u8::from_str_radix(hex, 16).ok() } else { None }
}

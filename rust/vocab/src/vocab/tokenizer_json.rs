//! Hugging Face's `tokenizer.json` into a model.
//!
//! In: the file's bytes. Out: a [`Model`] whose text encoder has never seen a control token: every
//! added token is control unless it is listed as text, and so is the unknown token. Cost: linear in
//! the file. Every rule is one of the `tokenizers` library (0.23). Post-processors, which add control
//! tokens around a text, are ignored: a format writes these tokens.
//!
//! Our own engines run byte-level BPE and BPE with byte fallback. The library runs the other models,
//! if the crate is built with it (see [`foreign`]); otherwise they are refused by name.

#[cfg(feature = "foreign")]
mod charsmap;
mod file;
#[cfg(feature = "foreign")]
mod findings;
#[cfg(feature = "foreign")]
pub(super) mod foreign;
mod pipeline;
#[cfg(feature = "foreign")]
mod steps;
mod table;

use std::sync::Arc;

use super::model::{Engine, Findings, Model, Policy, loss_of_bytes};
use super::normalize::Normalizer;
use super::tokens::{TokenKind, Tokens};
use super::{DummyPrefix, TokenId, alphabet};
use crate::bpe::{
    ByteBpe, ByteToken, CharBpe, ListedMerge, MergeRules, Piece, PieceKind, SPACE_MARK,
};
use crate::error::{Error, Result};
use crate::split::Splitter;
use file::File;
use pipeline::{Merging, Pipeline, Spaces, unsupported};
use table::{Role, Row, Table};

const KIND: &str = "tokenizer.json";

/// Whether `bytes` look like a `tokenizer.json`: an object with a `model` that is one.
pub(super) fn is_tokenizer_json(bytes: &[u8]) -> bool {
    file::is_tokenizer_json(bytes)
}

/// Reads a file.
pub(super) fn load(bytes: &[u8], policy: &Policy<'_>) -> Result<Model> {
    let file = file::parse(bytes)?;
    let table = Table::new(&file, policy)?;
    let model = match file.model.kind() {
        "BPE" => pipeline::read(&file).and_then(|pipeline| build(&file, &table, pipeline)),
        kind => Err(unsupported("model", format!("model type `{kind}`"))),
    };
    #[cfg(feature = "foreign")]
    return model.or_else(|ours| {
        foreign::load(&file, &table, &ours).map_err(|theirs| of_both(&ours, theirs))
    });
    #[cfg(not(feature = "foreign"))]
    model
}

/// The error for a file that neither our engines nor the library can run.
#[cfg(feature = "foreign")]
fn of_both(ours: &Error, theirs: Error) -> Error {
    match theirs {
        Error { offset, component, problem } if !ours.says(&problem) => {
            let reason = findings::reason(ours);
            let problem = format!("{problem}; our own engines do not run it either: {reason}");
            Error { offset, component, problem }
        }
        theirs => theirs,
    }
}

fn build(file: &File<'_>, table: &Table<'_>, pipeline: Pipeline) -> Result<Model> {
    let Pipeline { normalizer, merging } = pipeline;
    check_added(table, &normalizer, &merging)?;
    match merging {
        Merging::Bytes(splitter) => of_bytes(file, table, splitter, normalizer),
        Merging::Chars(spaces) => of_chars(file, table, spaces, normalizer),
    }
}

/// Refuses features of added text tokens that our engines do not have.
fn check_added(table: &Table<'_>, normalizer: &Normalizer, merging: &Merging) -> Result<()> {
    let refuse = |text: &str, what: &str| {
        Err(unsupported("added_tokens", format!("{what} for `{text}`, which is text,")))
    };
    let mut common = None;
    for (_, token) in &table.added {
        let text = &*token.content;
        for (flag, name) in [
            (token.single_word, "`single_word`"),
            (token.lstrip, "`lstrip`"),
            (token.rstrip, "`rstrip`"),
        ] {
            if flag {
                return refuse(text, name);
            }
        }
        // Tokens that are not normalised are matched first, in the original text.
        if *common.get_or_insert(token.normalized) != token.normalized {
            return refuse(text, "`normalized` of some added tokens and not of others");
        }
        if !token.normalized && !normalizer.leaves(text) {
            return refuse(text, "matching before normalization");
        }
        if matches!(merging, Merging::Chars(spaces) if spaces.prefix != DummyPrefix::Never) {
            return refuse(text, "a prefix of spaces on both sides");
        }
    }
    Ok(())
}

/// The name of a control token that is not an added token: the spelling of its bytes, in a
/// byte-level model.
fn name_of(row: &Row<'_>, is_of_bytes: bool) -> String {
    let bytes = if is_of_bytes { alphabet::bytes_of(row.text) } else { None };
    let name = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    name.unwrap_or_else(|| row.text.to_owned())
}

/// Every spelling of every control token.
fn spellings(table: &Table<'_>, is_of_bytes: bool) -> Vec<(String, TokenId)> {
    let withheld = (0..).zip(&table.rows).filter(|(_, row)| row.role == Role::Withheld);
    let withheld = withheld.map(|(id, row)| (name_of(row, is_of_bytes), id));
    table.spellings.iter().cloned().chain(withheld).collect()
}

/// A model that merges bytes.
fn of_bytes(
    file: &File<'_>,
    table: &Table<'_>,
    splitter: Splitter,
    normalizer: Normalizer,
) -> Result<Model> {
    let mut tokens = Tokens::default();
    let mut text = Vec::with_capacity(table.rows.len());
    let mut whole = Vec::with_capacity(table.added.len());
    for (id, row) in (0..).zip(&table.rows) {
        let bytes = if row.in_model { alphabet::bytes_of(row.text) } else { None };
        match (row.role, bytes) {
            (Role::Absent, _) => tokens.push(b"", TokenKind::Unused),
            (Role::Control, _) => tokens.push(row.text.as_bytes(), TokenKind::Control),
            (Role::Withheld, _) => tokens.push(name_of(row, true).as_bytes(), TokenKind::Control),
            (Role::Text, Some(bytes)) => {
                tokens.push(&bytes, TokenKind::Text);
                text.push(id);
            }
            // A character outside the alphabet of bytes: merges, which begin with bytes, never make
            // it.
            (Role::Text, None) => tokens.push(row.text.as_bytes(), TokenKind::Text),
            (Role::Added, bytes) => {
                if bytes.as_ref().is_some_and(|bytes| bytes != row.text.as_bytes()) {
                    let problem = format!("`{}`, which is text, as another text's bytes", row.text);
                    return Err(unsupported("added_tokens", problem));
                }
                tokens.push(row.text.as_bytes(), TokenKind::Text);
                text.extend(bytes.map(|_| id));
                whole.push((id, normalizer.apply(row.text)));
            }
        }
    }
    let token = |id| tokens.get(id).map(|(_, bytes)| ByteToken { id, bytes });
    let text: Vec<ByteToken<'_>> = text.into_iter().filter_map(token).collect();
    let whole: Vec<ByteToken<'_>> =
        whole.iter().map(|(id, text)| ByteToken { id: *id, bytes: text.as_bytes() }).collect();
    let mut pairs = Vec::new();
    each_merge(file, table, |left, right, _| {
        pairs.push((left, right));
        Ok(())
    })?;
    let mut findings = Findings::of_file(splitter.describe());
    let ignore_merges = file.model.ignore_merges == Some(true);
    let engine = ByteBpe::new(&text, MergeRules::Pairs(&pairs), splitter, ignore_merges, &whole)?;
    findings.losses.extend(loss_of_bytes(&engine));
    Ok(Model {
        kind: KIND,
        engine: Engine::Bytes(Box::new(engine)),
        tokens: Arc::new(tokens),
        spellings: spellings(table, true),
        strips: table.strips.clone(),
        dummy_prefix: DummyPrefix::Never,
        normalizer,
        space_mark: false,
        findings,
    })
}

/// Every merge of a file's list as three ids, without merges that make or use control.
fn each_merge(
    file: &File<'_>,
    table: &Table<'_>,
    mut each: impl FnMut(TokenId, TokenId, TokenId) -> Result<()>,
) -> Result<()> {
    let Some(merges) = &file.model.merges else {
        return Err(Error::new("merges", "none; expected a list"));
    };
    let mut product = String::new();
    for (left, right) in &merges.0 {
        product.clear();
        product.push_str(left);
        product.push_str(right);
        let id = |text: &str| {
            table.ids.get(text).copied().ok_or_else(|| {
                let (left, right) = (&**left, &**right);
                Error::new("merges", format!("`{left}` and `{right}`, but no token `{text}`"))
            })
        };
        let ids = [id(left)?, id(right)?, id(&product)?];
        if ids.iter().all(|&id| table.is_text(id)) {
            each(ids[0], ids[1], ids[2])?;
        }
    }
    Ok(())
}

/// A model that merges characters.
fn of_chars(
    file: &File<'_>,
    table: &Table<'_>,
    spaces: Spaces,
    normalizer: Normalizer,
) -> Result<Model> {
    const NO_PIECE: u32 = u32::MAX;
    let parting = if spaces.splits {
        "before each space"
    } else {
        "not at all: characters merge in all of a text"
    };
    let mut tokens = Tokens::default();
    let mut pieces = Vec::with_capacity(table.rows.len());
    let mut piece_of = vec![NO_PIECE; table.rows.len()];
    let mut byte_ids = [-1; 256];
    for (id, row) in (0..).zip(&table.rows) {
        let text = row.text;
        match row.role {
            Role::Absent => tokens.push(b"", TokenKind::Unused),
            Role::Control | Role::Withheld => tokens.push(text.as_bytes(), TokenKind::Control),
            Role::Text | Role::Added => match byte_of(text) {
                Some(byte) if row.role == Role::Text => {
                    byte_ids[usize::from(byte)] = id;
                    tokens.push(&[byte], TokenKind::Byte);
                }
                _ => tokens.push_marked(text),
            },
        }
        let is_merged = matches!(tokens.get(id), Some((TokenKind::Text, _))) && row.in_model;
        // Every space is marked, so a token with a bare space never matches.
        if is_merged && !text.contains(' ') {
            piece_of[id as usize] = pieces.len() as u32;
            pieces.push(Piece { id, text, score: 0.0, kind: PieceKind::Normal });
        }
    }
    if let Some(byte) = byte_ids.iter().position(|&id| id < 0) {
        let problem = format!("no token `<0x{byte:02X}>`: text would be lost");
        return Err(Error::new("model", problem));
    }
    if !pieces.iter().any(|piece| piece.text.chars().eq([SPACE_MARK])) {
        return Err(Error::new("model", "no token for the space, U+2581"));
    }
    let mut merges = Vec::new();
    each_merge(file, table, |left, right, product| {
        let is_byte = |id| matches!(tokens.get(id), Some((TokenKind::Byte, _)));
        if [left, right, product].into_iter().any(is_byte) {
            return Err(unsupported("merges", "a merge of the token of a byte"));
        }
        let [left, right, product] = [left, right, product].map(|id| piece_of[id as usize]);
        let text = pieces.get(product as usize).map_or("", |piece: &Piece<'_>| piece.text);
        if [left, right, product].contains(&NO_PIECE) {
            return Ok(());
        }
        if !(spaces.splits && text.chars().skip(1).any(|c| c == SPACE_MARK)) {
            merges.push(ListedMerge { left, right });
        }
        Ok(())
    })?;
    let added: Vec<_> = table
        .added
        .iter()
        .map(|(id, token)| {
            let is_marked = token.normalized && spaces.marked_first;
            let kind = if is_marked { PieceKind::Whole } else { PieceKind::Verbatim };
            (*id, normalizer.apply(&token.content), kind)
        })
        .collect();
    pieces.extend(added.iter().map(|(id, text, kind)| Piece {
        id: *id,
        text,
        score: 0.0,
        kind: *kind,
    }));
    let bpe = CharBpe::with_listed_merges(&pieces, &merges, &byte_ids)?;
    let bpe = if spaces.shares_prefix { bpe.sharing_prefix() } else { bpe };
    Ok(Model {
        kind: KIND,
        engine: Engine::Chars(Box::new(bpe)),
        tokens: Arc::new(tokens),
        spellings: spellings(table, false),
        strips: table.strips.clone(),
        dummy_prefix: spaces.prefix,
        normalizer,
        space_mark: true,
        findings: Findings { losses: loss_of_spaces(spaces), ..Findings::of_file(parting) },
    })
}

/// The reason why a model that puts a space before text loses one, if it does. If it puts the space
/// before the first text alone, a codec writes the space.
fn loss_of_spaces(spaces: Spaces) -> Vec<String> {
    let loss = "a text that begins with a space has the ids of the same text without it";
    let is_lost = spaces.shares_prefix && spaces.prefix == DummyPrefix::EveryRun;
    is_lost.then(|| loss.to_owned()).into_iter().collect()
}

/// The byte that `<0x0A>` spells.
fn byte_of(text: &str) -> Option<u8> {
    let hex = text.strip_prefix("<0x")?.strip_suffix('>')?;
    let upper = hex.bytes().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b));
    if hex.len() == 2 && upper { u8::from_str_radix(hex, 16).ok() } else { None }
}

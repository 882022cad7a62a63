//! A SentencePiece `.model` file (BPE) into text tables and control spellings.
//!
//! In: the file's bytes. Out: a [`Model`], in which the text encoder has never seen a control piece.
//! Cost: linear in the file. Every rule here is one of sentencepiece 0.2.3's BPE encoder; what is
//! not implemented is refused by name, never approximated.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::model::{Engine, Model, Policy};
use super::normalize::Normalizer;
use super::proto::{Fields, Value};
use super::tokens::{TokenKind, Tokens};
use super::{DummyPrefix, TokenId};
use crate::bpe::{Bpe, Piece, PieceKind, SPACE_MARK};
use crate::error::{Error, Result};

/// Longer pieces are refused: real ones end at 384 bytes, and tables grow with their square.
const MAX_PIECE_BYTES: usize = 1024;

/// `SentencePiece.Type` of its model file's schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

struct RawPiece<'a> {
    text: &'a str,
    score: f32,
    kind: Type,
    offset: usize,
}

#[derive(Default)]
struct Trainer {
    model_type: u64,
    treat_whitespace_as_suffix: bool,
    byte_fallback: bool,
}

#[allow(clippy::struct_excessive_bools, reason = "the file's own flags")]
struct NormalizerSpec {
    charsmap: bool,
    add_dummy_prefix: bool,
    remove_extra_whitespaces: bool,
    escape_whitespaces: bool,
    name: String,
}

/// Whether `bytes` look like a SentencePiece model: a protobuf whose first field is a piece.
pub(super) fn is_model(bytes: &[u8]) -> bool {
    bytes.first() == Some(&0x0A)
}

/// Reads a model.
pub(super) fn load(bytes: &[u8], policy: &Policy<'_>) -> Result<Model> {
    let (pieces, trainer, normalizer) = parse(bytes)?;
    refuse_unimplemented(&trainer, &normalizer)?;
    let mut tokens = Tokens::default();
    let mut spellings = Vec::new();
    let mut text = Vec::with_capacity(pieces.len());
    let mut byte_ids = [-1; 256];
    let mut seen = HashSet::with_capacity(pieces.len());
    for (id, piece) in pieces.iter().enumerate() {
        let id = id as TokenId;
        if !seen.insert(piece.text) {
            return Err(piece.error(format!("`{}` stands twice", piece.text)));
        }
        let kind = if policy.is_withheld(id) { Type::Control } else { piece.kind };
        let entry = |kind| Piece { id, text: piece.text, score: piece.score, kind };
        match kind {
            Type::Byte => {
                let byte = byte_of(piece.text)
                    .ok_or_else(|| piece.error(format!("byte piece `{}`", piece.text)))?;
                byte_ids[usize::from(byte)] = id;
                tokens.push(&[byte], TokenKind::Byte);
            }
            Type::UserDefined if policy.is_text(piece.text) => {
                if piece.text.contains(' ') {
                    let problem = format!("text piece `{}` holds a bare space", piece.text);
                    return Err(piece.error(problem));
                }
                text.push(entry(PieceKind::Whole));
                tokens.push(unescape(piece.text).as_bytes(), TokenKind::Text);
            }
            Type::Unknown | Type::Control | Type::UserDefined => {
                spellings.push((piece.text.to_owned(), id));
                tokens.push(piece.text.as_bytes(), TokenKind::Control);
            }
            // NUL as a piece of its own is never produced: sentencepiece 0.2.3 gives the byte's id
            // (InternLM2: 3, not 354), earlier ones gave the piece's.
            Type::Normal | Type::Unused if piece.text == "\0" => {
                tokens.push(b"\0", TokenKind::Text);
            }
            // Spaces are escaped before pieces are looked up, so a bare one is never met.
            Type::Normal | Type::Unused if piece.text.contains(' ') => {
                tokens.push(piece.text.as_bytes(), TokenKind::Text);
            }
            Type::Normal => {
                text.push(entry(PieceKind::Normal));
                tokens.push(unescape(piece.text).as_bytes(), TokenKind::Text);
            }
            Type::Unused => {
                text.push(entry(PieceKind::Unused));
                tokens.push(b"", TokenKind::Unused);
            }
        }
    }
    if let Some(byte) = byte_ids.iter().position(|&id| id < 0) {
        let problem = format!("no byte piece `<0x{byte:02X}>`: text would be lost");
        return Err(Error::vocab("pieces", problem));
    }
    let is_space =
        |piece: &Piece<'_>| piece.kind != PieceKind::Unused && piece.text.chars().eq([SPACE_MARK]);
    if !text.iter().any(is_space) {
        return Err(Error::vocab("pieces", "no piece for the space, U+2581"));
    }
    Ok(Model {
        kind: "sentencepiece",
        engine: Engine::Chars(Bpe::new(&text, &byte_ids)?),
        tokens: Arc::new(tokens),
        spellings,
        strips: HashMap::new(),
        dummy_prefix: if normalizer.add_dummy_prefix {
            DummyPrefix::EveryRun
        } else {
            DummyPrefix::Never
        },
        normalizer: if normalizer.remove_extra_whitespaces {
            Normalizer::CollapseSpaces
        } else {
            Normalizer::Identity
        },
        space_mark: true,
        lossless: true,
    })
}

impl RawPiece<'_> {
    fn error(&self, problem: String) -> Error {
        Error::Vocab { offset: Some(self.offset), component: "pieces", problem }
    }
}

fn parse(bytes: &[u8]) -> Result<(Vec<RawPiece<'_>>, Trainer, NormalizerSpec)> {
    let mut pieces = Vec::new();
    let mut trainer = None;
    let mut normalizer = None;
    for field in Fields::new(bytes, 0, "file") {
        match field? {
            (1, Value::Bytes(piece), offset) => pieces.push(parse_piece(piece, offset)?),
            (2, Value::Bytes(spec), offset) => trainer = Some(parse_trainer(spec, offset)?),
            (3, Value::Bytes(spec), offset) => normalizer = Some(parse_normalizer(spec, offset)?),
            (5, Value::Bytes(spec), offset) => refuse_denormalizer(spec, offset)?,
            _ => {}
        }
    }
    let missing =
        |what| Error::vocab("file", format!("no `{what}`: cut short, or of another kind"));
    if pieces.is_empty() {
        return Err(missing("pieces"));
    }
    let trainer = trainer.ok_or_else(|| missing("trainer_spec"))?;
    let normalizer = normalizer.ok_or_else(|| missing("normalizer_spec"))?;
    Ok((pieces, trainer, normalizer))
}

fn parse_piece(bytes: &[u8], offset: usize) -> Result<RawPiece<'_>> {
    let mut piece = RawPiece { text: "", score: 0.0, kind: Type::Normal, offset };
    for field in Fields::new(bytes, offset, "pieces") {
        match field? {
            (1, Value::Bytes(text), _) => {
                piece.text = std::str::from_utf8(text)
                    .map_err(|_| piece.error("a piece that is not UTF-8".into()))?;
            }
            (2, Value::Fixed32(bits), _) => piece.score = f32::from_bits(bits),
            (3, Value::Varint(kind), _) => {
                piece.kind = match kind {
                    1 => Type::Normal,
                    2 => Type::Unknown,
                    3 => Type::Control,
                    4 => Type::UserDefined,
                    5 => Type::Unused,
                    6 => Type::Byte,
                    _ => return Err(piece.error(format!("a piece of unknown type {kind}"))),
                }
            }
            _ => {}
        }
    }
    if piece.text.is_empty() {
        return Err(piece.error("an empty piece".into()));
    }
    if piece.text.len() > MAX_PIECE_BYTES {
        let length = piece.text.len();
        return Err(piece.error(format!("a piece of {length} bytes, at most {MAX_PIECE_BYTES}")));
    }
    if piece.score.is_nan() {
        return Err(piece.error(format!("the score of `{}` is not a number", piece.text)));
    }
    Ok(piece)
}

fn parse_trainer(bytes: &[u8], offset: usize) -> Result<Trainer> {
    const UNIGRAM: u64 = 1;
    let mut trainer = Trainer { model_type: UNIGRAM, ..Trainer::default() };
    for field in Fields::new(bytes, offset, "trainer_spec") {
        match field? {
            (3, Value::Varint(kind), _) => trainer.model_type = kind,
            (24, Value::Varint(flag), _) => trainer.treat_whitespace_as_suffix = flag != 0,
            (35, Value::Varint(flag), _) => trainer.byte_fallback = flag != 0,
            _ => {}
        }
    }
    Ok(trainer)
}

fn parse_normalizer(bytes: &[u8], offset: usize) -> Result<NormalizerSpec> {
    let mut normalizer = NormalizerSpec {
        charsmap: false,
        add_dummy_prefix: true,
        remove_extra_whitespaces: true,
        escape_whitespaces: true,
        name: String::new(),
    };
    for field in Fields::new(bytes, offset, "normalizer_spec") {
        match field? {
            (1, Value::Bytes(name), _) => normalizer.name = String::from_utf8_lossy(name).into(),
            (2, Value::Bytes(map), _) => normalizer.charsmap = !map.is_empty(),
            (3, Value::Varint(flag), _) => normalizer.add_dummy_prefix = flag != 0,
            (4, Value::Varint(flag), _) => normalizer.remove_extra_whitespaces = flag != 0,
            (5, Value::Varint(flag), _) => normalizer.escape_whitespaces = flag != 0,
            _ => {}
        }
    }
    Ok(normalizer)
}

fn refuse_denormalizer(bytes: &[u8], offset: usize) -> Result<()> {
    if parse_normalizer(bytes, offset)?.charsmap {
        return Err(Error::vocab("denormalizer_spec", "not implemented; expected none"));
    }
    Ok(())
}

fn refuse_unimplemented(trainer: &Trainer, normalizer: &NormalizerSpec) -> Result<()> {
    const BPE: u64 = 2;
    if trainer.model_type != BPE {
        let found = match trainer.model_type {
            1 => "unigram",
            3 => "word",
            4 => "char",
            _ => "unknown",
        };
        let problem = format!("model type `{found}` is not implemented; expected `bpe`");
        return Err(Error::vocab("trainer_spec", problem));
    }
    if !trainer.byte_fallback {
        let problem = "without `byte_fallback` unknown characters would be lost; expected it on";
        return Err(Error::vocab("trainer_spec", problem));
    }
    if trainer.treat_whitespace_as_suffix {
        let problem = "`treat_whitespace_as_suffix` is not implemented; expected it off";
        return Err(Error::vocab("trainer_spec", problem));
    }
    if normalizer.charsmap {
        let name = &normalizer.name;
        let problem = format!("normalization `{name}` is not implemented; expected `identity`");
        return Err(Error::vocab("normalizer_spec", problem));
    }
    if !normalizer.escape_whitespaces {
        let problem = "unescaped white space is not implemented; expected `escape_whitespaces`";
        return Err(Error::vocab("normalizer_spec", problem));
    }
    Ok(())
}

/// The byte that `<0x0A>` spells.
fn byte_of(text: &str) -> Option<u8> {
    let hex = text.strip_prefix("<0x")?.strip_suffix('>')?;
    let upper = hex.bytes().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b));
    if hex.len() == 2 && upper { u8::from_str_radix(hex, 16).ok() } else { None }
}

fn unescape(piece: &str) -> String {
    piece.replace(SPACE_MARK, " ")
}

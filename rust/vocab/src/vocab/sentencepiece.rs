//! A SentencePiece `.model` file (BPE) into text tables and control spellings.
//!
//! In: the file's bytes. Out: a [`Model`], in which the text encoder has never seen a control piece.
//! Cost: linear in the file. Every rule here is one of sentencepiece 0.2.3's BPE encoder. Features
//! that are not implemented are refused by name, never approximated.

use super::chars::{self, Spaces};
use super::configs::Added;
use super::model::{Model, Policy};
use super::proto::{Fields, Value};
use super::table::{Row, Table, TokenType};
use crate::error::{Error, Result};

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

/// Reads a model and the files beside it.
pub(super) fn load(bytes: &[u8], added: &Added, policy: &Policy<'_>) -> Result<Model> {
    let (rows, trainer, normalizer) = parse(bytes)?;
    refuse_unimplemented(&trainer, &normalizer)?;
    let mut table = Table { rows, ..Table::default() };
    table.apply(added, policy)?;
    let spaces = Spaces {
        add_dummy_prefix: normalizer.add_dummy_prefix,
        remove_extra: normalizer.remove_extra_whitespaces,
        bare_in_whole: false,
    };
    chars::build("sentencepiece", table, spaces, None, policy)
}

fn parse(bytes: &[u8]) -> Result<(Vec<Row<'_>>, Trainer, NormalizerSpec)> {
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
    let missing = |what| Error::new("file", format!("no `{what}`: cut short, or of another kind"));
    if pieces.is_empty() {
        return Err(missing("pieces"));
    }
    let trainer = trainer.ok_or_else(|| missing("trainer_spec"))?;
    let normalizer = normalizer.ok_or_else(|| missing("normalizer_spec"))?;
    Ok((pieces, trainer, normalizer))
}

fn parse_piece(bytes: &[u8], offset: usize) -> Result<Row<'_>> {
    let mut piece = Row { offset: Some(offset), ..Row::new(&b""[..], TokenType::Normal) };
    for field in Fields::new(bytes, offset, "pieces") {
        match field? {
            (1, Value::Bytes(text), _) => piece.text = text.into(),
            (2, Value::Fixed32(bits), _) => piece.score = f32::from_bits(bits),
            (3, Value::Varint(kind), _) => {
                piece.kind = TokenType::of_number(kind)
                    .ok_or_else(|| piece.error(format!("a piece of unknown type {kind}")))?;
            }
            _ => {}
        }
    }
    piece.check_length()?;
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
        return Err(Error::new("denormalizer_spec", "not implemented; expected none"));
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
        return Err(Error::new("trainer_spec", problem));
    }
    if !trainer.byte_fallback {
        let problem = "without `byte_fallback` unknown characters would be lost; expected it on";
        return Err(Error::new("trainer_spec", problem));
    }
    if trainer.treat_whitespace_as_suffix {
        let problem = "`treat_whitespace_as_suffix` is not implemented; expected it off";
        return Err(Error::new("trainer_spec", problem));
    }
    if normalizer.charsmap {
        let name = &normalizer.name;
        let problem = format!("normalization `{name}` is not implemented; expected `identity`");
        return Err(Error::new("normalizer_spec", problem));
    }
    if !normalizer.escape_whitespaces {
        let problem = "unescaped white space is not implemented; expected `escape_whitespaces`";
        return Err(Error::new("normalizer_spec", problem));
    }
    Ok(())
}

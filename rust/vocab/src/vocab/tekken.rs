//! Mistral's `tekken.json`: ranks in JSON, with the pattern and the special tokens.
//!
//! In: the file's bytes and the files beside it. Out: a [`Model`]. Cost: linear in the file. The
//! special tokens come first, so the id of rank 0 is their number. Only as many ranks are used as
//! the vocabulary has room for. Follows mistral-common 1.13.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;

use super::configs::Added;
use super::model::{Model, Policy};
use super::normalize::Normalizer;
use super::registry::Reading;
use super::table::{MAX_IDS, Row, Table, TokenType};
use super::{TokenId, byte_level};
use crate::error::{Error, Result};

/// The special tokens of files that do not list them: up to version 7 they were part of the code.
const UNLISTED: [&str; 20] = [
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
];

/// Versions of files that do not list their special tokens.
const UNLISTED_VERSIONS: [&str; 4] = ["v1", "v2", "v3", "v7"];

#[derive(Deserialize)]
struct File<'a> {
    config: Config,
    #[serde(borrow)]
    vocab: Vec<Rank<'a>>,
    special_tokens: Option<Vec<Special>>,
}

#[derive(Deserialize)]
struct Config {
    pattern: String,
    default_vocab_size: usize,
    default_num_special_tokens: usize,
    #[serde(default)]
    version: String,
}

#[derive(Deserialize)]
struct Rank<'a> {
    rank: usize,
    #[serde(borrow)]
    token_bytes: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Special {
    rank: TokenId,
    token_str: String,
}

/// Reads a file and the files beside it.
pub(super) fn load(bytes: &[u8], added: &Added, policy: &Policy<'_>) -> Result<Model> {
    let file: File<'_> = serde_json::from_slice(bytes)
        .map_err(|error| Error::new("tekken.json", error.to_string()))?;
    let Config { pattern, default_vocab_size: size, default_num_special_tokens: first, version } =
        file.config;
    if size > MAX_IDS || first > size || size - first > file.vocab.len() {
        let found = file.vocab.len();
        let problem = format!("{size} ids of which {first} are special, with {found} ranks");
        return Err(Error::new("config", problem));
    }
    let mut table = special_tokens(file.special_tokens, first, &version)?;
    for (at, rank) in file.vocab[..size - first].iter().enumerate() {
        let token = BASE64_STANDARD.decode(&*rank.token_bytes).ok().filter(|_| rank.rank == at);
        let token = token.ok_or_else(|| {
            Error::new("vocab", format!("place {at}, expected rank {at} and bytes in base 64"))
        })?;
        table.rows.push(Row::new(token, TokenType::Normal));
        table.rows[first + at].check_length()?;
    }
    table.apply(added, policy)?;
    let reading = Reading::of_pattern(&pattern, "the file", Normalizer::Identity)?;
    byte_level::build("tekken", table, None, Reading { ignore_merges: true, ..reading }, policy)
}

/// The special tokens, by id; those that are not listed are fillers.
fn special_tokens<'a>(
    listed: Option<Vec<Special>>,
    count: usize,
    version: &str,
) -> Result<Table<'a>> {
    let listed = match listed {
        Some(listed) => listed.into_iter().map(|token| (token.rank, token.token_str)).collect(),
        None if UNLISTED_VERSIONS.contains(&version) => {
            (0..).zip(UNLISTED.map(str::to_owned)).collect::<Vec<_>>()
        }
        None => {
            let problem = format!("none, in a file of version `{version}`");
            return Err(Error::new("special_tokens", problem));
        }
    };
    let mut table = Table::default();
    for (id, spelling) in listed {
        if !usize::try_from(id).is_ok_and(|id| id < count) {
            let problem = format!("`{spelling}` has id {id}, expected one below {count}");
            return Err(Error::new("special_tokens", problem));
        }
        table.put(id, Row::new(spelling.into_bytes(), TokenType::Control))?;
    }
    for id in 0..count {
        if table.rows.get(id).is_none_or(|row| row.text.is_empty()) {
            let filler = format!("<SPECIAL_{id}>").into_bytes();
            table.put(id as TokenId, Row::new(filler, TokenType::Control))?;
        }
    }
    Ok(table)
}

//! A file of ranks, as tiktoken has them: per line the bytes of a token in base 64, and its id.
//!
//! In: the file's bytes and the files beside it. Out: a [`Model`]. Cost: linear in the file. The
//! ranks are also the order of merges. The file does not say how text is split before merging, nor
//! which tokens are special. `registry.toml` has the splitter of known files, by their content.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hashbrown::HashSet;

use super::configs::Added;
use super::model::{Model, Policy};
use super::registry::{self, Reading};
use super::table::{Row, Table, TokenType};
use super::{TokenId, byte_level};
use crate::error::{Error, Result};

/// Whether the first line of `bytes` is a rank.
pub(super) fn is_ranks(bytes: &[u8]) -> bool {
    bytes
        .split(|&byte| byte == b'\n')
        .next()
        .is_some_and(|line| parse_line(line, &mut Vec::new()).is_some())
}

/// Reads a file of ranks and the files beside it.
pub(super) fn load(bytes: &[u8], added: &Added, policy: &Policy<'_>) -> Result<Model> {
    let mut texts = Vec::with_capacity(bytes.len() / 2);
    let mut table = parse(bytes, &mut texts)?;
    let fingerprint = registry::fingerprint(&table.rows);
    let known = registry::of_ranks(table.rows.len(), &fingerprint);
    let reading = match (&added.pattern, known) {
        (Some(pattern), known) => {
            let normalizer = known.map(registry::Ranks::normalizer).unwrap_or_default();
            Some(Reading::of_pattern(pattern, added.pattern_from, normalizer)?)
        }
        // Two models may share their ranks and split text differently, so the tokenizer's class
        // decides first.
        (None, known) => {
            match added.class.as_deref().map(registry::of_class).transpose()?.flatten() {
                Some(reading) => Some(reading),
                None => known.map(registry::Ranks::reading).transpose()?,
            }
        }
    };
    let mut reading = reading.ok_or_else(|| {
        let count = table.rows.len();
        let problem = format!("how these {count} ranks part text is not known; give `pattern=`");
        Error::new("pattern", problem)
    })?;
    reading.findings.fingerprint = Some(fingerprint);
    // A single file of ranks may list special tokens as ordinary ones.
    for row in &mut table.rows {
        if known.is_some_and(|known| known.has_special(&row.text)) {
            row.kind = TokenType::Control;
        }
    }
    table.apply(added, policy)?;
    if let Some(known) = known
        && added.has_no_ids_of_files()
    {
        let count = append(&mut table, known)?;
        if count > 0 {
            let told = format!(
                "; no file beside them has ids, so {count} special tokens are those of its code"
            );
            reading.findings.known_by.push_str(&told);
        }
    }
    // As tiktoken: a pre-token that is a token is that token.
    byte_level::build("tiktoken", table, None, Reading { ignore_merges: true, ..reading }, policy)
}

/// Appends the special tokens of the model's code; returns their number. Tokens that the caller names have
/// the caller's id and spelling.
fn append(table: &mut Table<'_>, known: &registry::Ranks) -> Result<usize> {
    let named = table.rows.iter().skip(known.count()).map(|row| row.text.to_vec());
    let named: HashSet<Vec<u8>> = named.collect();
    let mut count = 0;
    for (id, spelling) in known.added() {
        let is_free = table.rows.get(id as usize).is_none_or(|row| row.text.is_empty());
        if is_free && !named.contains(spelling.as_bytes()) {
            table.put(id, Row::new(spelling.into_bytes(), TokenType::UserDefined))?;
            count += 1;
        }
    }
    Ok(count)
}

/// Reads the lines; `texts` takes the bytes of all tokens.
fn parse<'a>(bytes: &[u8], texts: &'a mut Vec<u8>) -> Result<Table<'a>> {
    let mut ranks = Vec::new();
    let mut at = 0;
    for line in bytes.split(|&byte| byte == b'\n') {
        let offset = at;
        at += line.len() + 1;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let id = parse_line(line, texts).ok_or_else(|| Error {
            offset: Some(offset),
            component: "ranks",
            problem: "a line that is not base 64, a space and a rank".into(),
        })?;
        ranks.push((offset, id, texts.len()));
    }
    let mut table = Table { rows: Vec::with_capacity(ranks.len()), ..Table::default() };
    let mut rest = texts.as_slice();
    let mut done = 0;
    for (offset, id, end) in ranks {
        let (token, after) = rest.split_at(end - done);
        (rest, done) = (after, end);
        // The last rank of Whisper's files is not a token.
        let kind = if token.is_empty() { TokenType::Unused } else { TokenType::Normal };
        let row = Row { offset: Some(offset), ..Row::new(token, kind) };
        if kind == TokenType::Normal {
            row.check_length()?;
        }
        table.put(id, row)?;
    }
    Ok(table)
}

/// Appends the bytes of a line's token to `texts`; returns its rank.
fn parse_line(line: &[u8], texts: &mut Vec<u8>) -> Option<TokenId> {
    let line = line.trim_ascii_end();
    let space = line.iter().position(|&byte| byte == b' ')?;
    let (token, rank) = (&line[..space], &line[space + 1..]);
    let rank = std::str::from_utf8(rank).ok().filter(|r| r.bytes().all(|b| b.is_ascii_digit()))?;
    if token.is_empty() {
        return None;
    }
    // No bytes in Whisper's files.
    if token != b"=" {
        BASE64_STANDARD.decode_vec(token, texts).ok()?;
    }
    rank.parse().ok()
}

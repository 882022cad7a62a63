//! `vocab.json` and `merges.txt`: tokens in GPT-2's alphabet of bytes, and the pairs that merge.
//!
//! In: the bytes of both, and the files beside them. Out: a [`Model`]. Cost: linear in the files. The
//! files do not say how text is split; `tokenizer_class` or the caller does.

use hashbrown::HashMap;

use super::configs::{Added, Pairs, parse};
use super::model::{Model, Policy};
use super::normalize::Normalizer;
use super::registry::{self, Reading};
use super::table::{Row, Table, TokenType};
use super::{TokenId, alphabet, byte_level};
use crate::error::{Error, Result};

/// Reads both files and the files beside them.
pub(super) fn load(
    vocab: &[u8],
    merges: &[u8],
    added: &Added,
    policy: &Policy<'_>,
) -> Result<Model> {
    let reading = reading(added)?;
    let tokens: Vec<(String, TokenId)> = parse::<Pairs<TokenId>>("vocab.json", vocab)?.0;
    let merges = std::str::from_utf8(merges).map_err(|error| Error {
        offset: Some(error.valid_up_to()),
        component: "merges.txt",
        problem: "not UTF-8".into(),
    })?;
    let mut table = Table::default();
    let mut ids = HashMap::with_capacity(tokens.len());
    for (token, id) in &tokens {
        table.put(*id, row(token))?;
        ids.insert(token.as_str(), *id);
    }
    table.apply(added, policy)?;
    let lines = merges.lines().filter(|line| !line.is_empty());
    let header = usize::from(merges.starts_with("#version"));
    let pairs = byte_level::pairs(lines.skip(header).map(Ok), &ids)?;
    byte_level::build("vocab.json", table, Some(pairs), reading, policy)
}

/// A token in GPT-2's alphabet; other characters cannot be text.
pub(super) fn row(token: &str) -> Row<'_> {
    match alphabet::bytes_of(token) {
        Some(bytes) => Row::new(bytes, TokenType::Normal),
        None => Row::new(token.as_bytes(), TokenType::Control),
    }
}

fn reading(added: &Added) -> Result<Reading> {
    if added.add_prefix_space {
        let problem = "`add_prefix_space` is not implemented; expected it off";
        return Err(Error::new("tokenizer_config.json", problem));
    }
    let known = added.class.as_deref().map_or(Ok(None), registry::of_class)?;
    match (&added.pattern, known) {
        (Some(pattern), known) => {
            let normalizer = known.map_or(Normalizer::Identity, |known| known.normalizer);
            Reading::of_pattern(pattern, added.pattern_from, normalizer)
        }
        (None, Some(known)) => Ok(known),
        (None, None) => {
            let class = added.class.as_deref().unwrap_or("no class");
            let problem = format!(
                "how `{class}` parts text is not known; expected `tokenizer_class` in \
                 `tokenizer_config.json` to be a known one, or `pattern=`"
            );
            Err(Error::new("pattern", problem))
        }
    }
}

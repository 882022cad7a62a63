//! Models from tokens of bytes, shared by files of ranks, files of merges, tekken and GGUF files.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::model::{Engine, Model, Policy, loss_of_bytes};
use super::registry::Reading;
use super::table::{Table, TokenType};
use super::tokens::{TokenKind, Tokens};
use super::{DummyPrefix, TokenId};
use crate::bpe::{ByteBpe, ByteToken, MergeRules};
use crate::error::{Error, Result};

/// Real vocabularies have half a million; a file can be made to have many more.
const MAX_MERGES: usize = 2 << 20;

/// Builds the tables of a vocabulary. Merges that make or use control tokens are left out.
pub(super) fn build(
    kind: &'static str,
    table: Table<'_>,
    pairs: Option<Vec<(TokenId, TokenId)>>,
    reading: Reading,
    policy: &Policy<'_>,
) -> Result<Model> {
    let mut tokens = Tokens::default();
    let mut control = Vec::new();
    let mut text = Vec::with_capacity(table.rows.len());
    let mut whole = Vec::new();
    let mut seen = HashSet::with_capacity(table.rows.len());
    for (id, row) in table.rows.iter().enumerate() {
        let id = id as TokenId;
        if row.text.is_empty() {
            tokens.push(b"", TokenKind::Unused);
            continue;
        }
        row.check_length()?;
        let token = ByteToken { id, bytes: &row.text };
        match row.kind_for(id, policy) {
            TokenType::Normal => {
                if !seen.insert(token.bytes) {
                    return Err(row.error(format!("`{}` stands twice", row.spelling())));
                }
                text.push(token);
                tokens.push(&row.text, TokenKind::Text);
            }
            TokenType::Raw => tokens.push(&row.text, TokenKind::Text),
            TokenType::UserDefined if policy.is_text(&row.spelling(), false) => {
                whole.push(token);
                tokens.push(&row.text, TokenKind::Text);
            }
            TokenType::Byte => {
                let problem = format!("byte piece `{}` where every token is bytes", row.spelling());
                return Err(row.error(problem));
            }
            _ => {
                control.push(id);
                tokens.push(&row.text, TokenKind::Control);
            }
        }
    }
    let pairs = pairs.map(|pairs| of_text(pairs, &tokens, &table));
    let rules = pairs.as_deref().map_or(MergeRules::Ranks, MergeRules::Pairs);
    let Reading { splitter, normalizer, ignore_merges, mut findings } = reading;
    let engine = ByteBpe::new(&text, rules, splitter, ignore_merges, &whole)?;
    findings.losses.extend(loss_of_bytes(&engine));
    Ok(Model {
        kind,
        engine: Engine::Bytes(Box::new(engine)),
        tokens: Arc::new(tokens),
        spellings: table.spellings(control.into_iter()),
        strips: table.strips,
        dummy_prefix: DummyPrefix::Never,
        normalizer,
        space_mark: false,
        findings,
    })
}

/// The merges whose parts and product are all text.
fn of_text(
    mut pairs: Vec<(TokenId, TokenId)>,
    tokens: &Tokens,
    table: &Table<'_>,
) -> Vec<(TokenId, TokenId)> {
    let is_text = |id: TokenId| {
        let is_raw = table.rows.get(id as usize).is_some_and(|row| row.kind == TokenType::Raw);
        !is_raw && matches!(tokens.get(id), Some((TokenKind::Text, _)))
    };
    let is_control = |id| !matches!(tokens.get(id), Some((TokenKind::Text, _)));
    // Products that were ordinary tokens in the file and are control now.
    let control: HashSet<&[u8]> = (0..)
        .zip(&table.rows)
        .filter(|(id, row)| !row.text.is_empty() && is_control(*id))
        .map(|(_, row)| &*row.text)
        .collect();
    let mut product = Vec::new();
    pairs.retain(|&(left, right)| {
        let (Some((_, a)), Some((_, b))) = (tokens.get(left), tokens.get(right)) else {
            return false;
        };
        product.clear();
        product.extend_from_slice(a);
        product.extend_from_slice(b);
        is_text(left) && is_text(right) && !control.contains(&*product)
    });
    pairs
}

/// The ids of merges that are spelled as two tokens each: `Ġ t`.
pub(super) fn pairs<'a>(
    merges: impl Iterator<Item = Result<&'a str>>,
    ids: &HashMap<&str, TokenId>,
) -> Result<Vec<(TokenId, TokenId)>> {
    let mut pairs = Vec::new();
    for merge in merges {
        let merge = merge?;
        let mut parts = merge.split(' ');
        let (Some(left), Some(right), None) = (parts.next(), parts.next(), parts.next()) else {
            let problem = format!("`{merge}`, expected two tokens and one space between them");
            return Err(Error::new("merges", problem));
        };
        let id = |part: &str| {
            ids.get(part).copied().ok_or_else(|| {
                Error::new("merges", format!("`{merge}` names `{part}`, which is no token"))
            })
        };
        pairs.push((id(left)?, id(right)?));
        if pairs.len() > MAX_MERGES {
            return Err(Error::new("merges", format!("more than {MAX_MERGES}")));
        }
    }
    Ok(pairs)
}

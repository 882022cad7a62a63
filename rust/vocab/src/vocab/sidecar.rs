//! A `tokenizer.json` and the files beside it.
//!
//! In: the file's bytes and an [`Added`]. Out: a [`Model`]. The file is read once, and a second time
//! only if another file calls one of its ordinary tokens special.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashSet;

use super::configs::Added;
use super::model::{Model, Policy, Strips};
use super::table::{MAX_IDS, spells};
use super::tokens::{TokenKind, Tokens};
use super::{TokenId, text_pieces, tokenizer_json};
use crate::error::{Error, Result};

/// Reads a `tokenizer.json` and the files beside it.
pub(super) fn load_tokenizer_json(
    bytes: &[u8],
    added: &Added,
    policy: &Policy<'_>,
) -> Result<Model> {
    let mut model = tokenizer_json::load(bytes, policy)?;
    let special = special_among_text(&model.tokens, added, policy)?;
    if !special.is_empty() {
        let withheld = policy.withheld.union(&special).copied().collect();
        model = tokenizer_json::load(bytes, &Policy { withheld: &withheld, ..*policy })?;
    }
    append(&mut model, added, policy)?;
    Ok(model)
}

/// The ordinary tokens that the files beside it call special.
fn special_among_text(
    tokens: &Tokens,
    added: &Added,
    policy: &Policy<'_>,
) -> Result<HashSet<TokenId>> {
    let mut special = HashSet::new();
    for token in &added.tokens {
        let Some((TokenKind::Text | TokenKind::Byte, bytes)) = tokens.get(token.id) else {
            continue;
        };
        if !spells(bytes, &token.spelling) && !spells(token.spelling.as_bytes(), &lossy(bytes)) {
            let problem =
                format!("`{}` has id {}, which is `{}`", token.spelling, token.id, lossy(bytes));
            return Err(Error::new(token.file, problem));
        }
        if !policy.is_text(&token.spelling, false) {
            special.insert(token.id);
        }
    }
    let names: HashSet<&[u8]> = added
        .names
        .iter()
        .filter(|name| !policy.is_text(name, true))
        .map(String::as_bytes)
        .collect();
    if !names.is_empty() {
        special.extend((0..tokens.len() as TokenId).filter(|&id| {
            tokens
                .get(id)
                .is_some_and(|(kind, bytes)| kind == TokenKind::Text && names.contains(bytes))
        }));
    }
    Ok(special)
}

/// Adds the control tokens that the file lacks, and further spellings of those it has.
fn append(model: &mut Model, added: &Added, policy: &Policy<'_>) -> Result<()> {
    let known: BTreeMap<String, TokenId> = model.spellings.iter().cloned().collect();
    let mut new = BTreeMap::new();
    for token in &added.tokens {
        if let Some(&id) = known.get(&token.spelling)
            && id != token.id
        {
            let problem =
                format!("`{}` has id {}, in the vocabulary {id}", token.spelling, token.id);
            return Err(Error::new(token.file, problem));
        }
        match model.tokens.get(token.id) {
            Some((TokenKind::Text | TokenKind::Byte, _)) => continue,
            Some((TokenKind::Control, _)) => {}
            // The encoder of text does not know it, so a word is control here.
            _ if !text_pieces::is_by_shape(&token.spelling)
                && policy.is_text(&token.spelling, false) =>
            {
                let problem =
                    format!("`{}` is text, expected it in `tokenizer.json`", token.spelling);
                return Err(Error::new(token.file, problem));
            }
            _ if token.id as usize >= MAX_IDS => {
                let (spelling, id) = (&token.spelling, token.id);
                let problem = format!("`{spelling}` has id {id}, expected one below {MAX_IDS}");
                return Err(Error::new(token.file, problem));
            }
            _ => {
                new.entry(token.id).or_insert(token.spelling.as_str());
            }
        }
        if !known.contains_key(&token.spelling) {
            model.spellings.push((token.spelling.clone(), token.id));
        }
        match token.strips {
            Some(strips) if strips == Strips::default() => drop(model.strips.remove(&token.id)),
            Some(strips) => drop(model.strips.insert(token.id, strips)),
            None => {}
        }
    }
    if !new.is_empty() {
        model.tokens = Arc::new(with_control(&model.tokens, &new));
    }
    Ok(())
}

/// The tokens, and control tokens at ids that have none.
fn with_control(tokens: &Tokens, new: &BTreeMap<TokenId, &str>) -> Tokens {
    let end = new.keys().next_back().map_or(0, |&last| last + 1).max(tokens.len() as TokenId);
    let mut all = Tokens::default();
    for id in 0..end {
        match (new.get(&id), tokens.get(id)) {
            (Some(spelling), _) => all.push(spelling.as_bytes(), TokenKind::Control),
            (None, Some((kind, bytes))) => all.push(bytes, kind),
            (None, None) => all.push(b"", TokenKind::Unused),
        }
    }
    all
}

fn lossy(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

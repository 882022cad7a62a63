//! What all shapes do with arguments before they write them.

use crate::json::{self, Token, Tokens};
use crate::limits::HOLD_LIMIT;
use chatcodec_vocab::Vocab;

/// Arguments as they are read: with the spaces of `json.dumps`, and texts as the vocabulary decodes them.
pub(super) fn as_read(arguments: &str, vocab: &Vocab) -> String {
    json::respace(json::trim(arguments), &|text| vocab.canonical_text(text))
}

/// Refuses a value that is no object, that is nested deeper than a reader follows, or that has a number which is longer
/// than what a reader holds.
pub(super) fn check_object(arguments: &str, max_depth: usize) -> Result<(), String> {
    if !arguments.starts_with('{') {
        return Err("is not a JSON object, expected one".to_owned());
    }
    for (depth, token) in Tokens::of(arguments) {
        match token {
            Token::Open(_) if depth >= max_depth => {
                return Err(format!("is nested deeper than {max_depth}"));
            }
            Token::Word(word) if word.len() > HOLD_LIMIT => {
                return Err(format!("has a number of over {HOLD_LIMIT} digits"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Refuses half of a surrogate pair, which strings without escapes cannot hold.
pub(super) fn check_text(arguments: &str) -> Result<(), String> {
    if json::has_lone_surrogate(arguments) {
        return Err("holds half of a surrogate pair, expected text".to_owned());
    }
    Ok(())
}

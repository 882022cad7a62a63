//! Expressions as structural tags of xgrammar: one grammar, with control tokens by their ids.

use super::{Constraint, ebnf};
use crate::error::Result;
use crate::json::quote_into;
use chatcodec_vocab::TokenId;

/// A constraint as a structural tag.
pub(super) fn print(constraint: &Constraint) -> Result<String> {
    let dialect = ebnf::Dialect {
        name: "xgrammar",
        token,
        stop: constraint.stop,
        most: 100_000,
        // `xgrammar_tokens` are such that no text spells a control token.
        spellings: &[],
        known: None,
    };
    let grammar = ebnf::print(constraint, &dialect)?;
    let mut tag = String::with_capacity(grammar.len() + grammar.len() / 8 + 80);
    tag.push_str(r#"{"type":"structural_tag","format":{"type":"grammar","grammar":"#);
    quote_into(&grammar, &mut tag);
    tag.push_str("}}");
    Ok(tag)
}

fn token(ids: &[TokenId]) -> String {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    format!("Token({})", ids.join(", "))
}

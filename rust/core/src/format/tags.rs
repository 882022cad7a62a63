//! Tags: a control token with text around it, or several with text after the first, which patterns name as one token.

use std::collections::BTreeMap;

use hashbrown::HashSet;

use super::file::OneOrMany;
use super::load::MAX_SPELLING_BYTES;
use super::rules::control_names;
use crate::error::{Checked, wrong};
use crate::pattern::{self, Piece};

/// Maximum number of tags, and of ways to write one.
const MAX_TAGS: usize = 64;
const MAX_WAYS: usize = 16;
/// Maximum number of tokens after the first.
const MAX_NEXT: usize = 3;

/// One way to write a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TagSpec {
    /// The text before the token.
    pub(crate) before: String,
    /// The name of the token.
    pub(crate) token: String,
    /// The text after the token.
    pub(crate) after: String,
    /// The names of the tokens that follow that text.
    pub(crate) next: Vec<String>,
}

impl TagSpec {
    /// The names of its tokens, in order.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.token).chain(&self.next)
    }

    /// Whether a turn may end in the token, where these pieces follow: text and a further token tell the tag from the
    /// next turn.
    pub(super) fn may_follow_turns(&self, pieces: &[Piece]) -> bool {
        self.before.is_empty()
            && !self.after.trim().is_empty()
            && !self.next.is_empty()
            && pieces.iter().all(Piece::is_space)
    }

    /// Whether the text of the tag may be what a pattern begins with.
    pub(super) fn may_go_on(&self, head: Option<&Piece>) -> bool {
        match head {
            Some(Piece::Literal(text)) => {
                let (text, after) = (text.trim_start(), self.after.trim_start());
                text.starts_with(after) || after.starts_with(text)
            }
            Some(Piece::Control(_)) | None => false,
            Some(_) => true,
        }
    }
}

/// The tags of a file by name: the first way is written, all are read.
pub(super) fn tags(file: &BTreeMap<String, OneOrMany>) -> Checked<Vec<(String, Vec<TagSpec>)>> {
    if file.len() > MAX_TAGS {
        return wrong("tag", format!("has {} tags, expected at most {MAX_TAGS}", file.len()));
    }
    let mut seen = HashSet::new();
    let mut tags = Vec::with_capacity(file.len());
    for (name, texts) in file {
        let key = format!("tag.{name}");
        if !pattern::is_control_name(name) {
            return wrong(key, "is not a name, expected upper-case letters, digits and `_`");
        }
        let texts = texts.clone().into_vec();
        if texts.is_empty() || texts.len() > MAX_WAYS {
            let count = texts.len();
            return wrong(key, format!("has {count} patterns, expected 1 to {MAX_WAYS}"));
        }
        let mut ways = Vec::with_capacity(texts.len());
        for (nth, text) in texts.iter().enumerate() {
            let way = way(&key, text, nth == 0)?;
            if !seen.insert(text.clone()) {
                return wrong(
                    key,
                    format!("has {text:?}, which is a tag already, expected another"),
                );
            }
            ways.push(way);
        }
        tags.push((name.clone(), ways));
    }
    Ok(tags)
}

/// Reads `<{TOKEN}name>`. A token may take the white space beside it, so a tag that is written has none there.
fn way(key: &str, text: &str, is_written: bool) -> Checked<TagSpec> {
    if text.len() > MAX_SPELLING_BYTES {
        let problem = format!("has {} bytes, expected at most {MAX_SPELLING_BYTES}", text.len());
        return wrong(key, problem);
    }
    let pieces = pattern::parse(text).or_else(|problem| wrong(key, problem))?;
    // The first token has text around it; others follow at the end.
    let first = pieces.iter().position(Piece::is_control).map_or(0, |at| at + 1);
    let others = pieces[first..].iter().rev().take_while(|piece| piece.is_control()).count();
    let (pieces, next) = pieces.split_at(pieces.len() - others);
    let (before, names, after) = match pieces {
        [Piece::Literal(before), Piece::Control(names)] => (before.as_str(), names, ""),
        [Piece::Literal(before), Piece::Control(names), Piece::Literal(after)] => {
            (before.as_str(), names, after.as_str())
        }
        [Piece::Control(names), Piece::Literal(after)] => ("", names, after.as_str()),
        [Piece::Control(names)] if !next.is_empty() => ("", names, ""),
        _ => {
            let problem = "is no tag; expected one control token with text around it, or several with text after the \
                           first";
            return wrong(key, problem);
        }
    };
    let one = |names: &[String]| match names {
        [token] => Ok(token.clone()),
        _ => wrong(key, "has a choice of control tokens, expected one"),
    };
    if next.len() > MAX_NEXT {
        let count = next.len() + 1;
        return wrong(
            key,
            format!("has {count} control tokens, expected at most {}", MAX_NEXT + 1),
        );
    }
    let token = one(names)?;
    let next = next.iter().filter_map(control_names).map(one).collect::<Checked<Vec<String>>>()?;
    let is_beside =
        |text: &str, side: Option<char>| !text.is_empty() && side.is_some_and(char::is_whitespace);
    let has_space = is_beside(before, before.chars().next_back());
    if is_written && (has_space || is_beside(after, after.chars().next())) {
        return wrong(key, "has white space beside its token, expected none there");
    }
    let of = str::to_owned;
    Ok(TagSpec { before: of(before), token, after: of(after), next })
}

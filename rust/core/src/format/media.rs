//! `[media.image]`: the control tokens of a media part.
//!
//! In: the tables `media` of a file. Out: for each kind its opener, which may have text, the token that is repeated,
//! the token that separates rows, and its closer. A part is read back from its tokens alone, so kinds are distinct, and
//! the tokens are used nowhere else.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::patterns::Patterns;
use super::{Format, Guarantee};
use crate::error::{Checked, wrong};
use crate::message::MediaKind;
use crate::pattern::{Piece, is_white};

/// A table of `media`, as it is in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MediaFile {
    /// Before the placeholders; alone, without `each`, the part.
    #[serde(default)]
    open: String,
    /// The placeholder, once for each embedding.
    each: Option<String>,
    /// Between two rows of placeholders.
    between: Option<String>,
    /// After the placeholders.
    #[serde(default)]
    close: String,
}

/// How a media part is written and read.
#[derive(Debug, Clone)]
pub(crate) struct MediaSpec {
    pub(crate) kind: MediaKind,
    pub(crate) open: Vec<Piece>,
    /// Name of the token that is written for each embedding; without one a part is its opener alone.
    pub(crate) each: Option<String>,
    /// Name of the token between two rows.
    pub(crate) between: Option<String>,
    pub(crate) close: Vec<Piece>,
    /// Least number of tokens: a part without any may read as another kind.
    pub(crate) least: u32,
}

impl MediaSpec {
    /// What is wrong with a size: with a number of rows and of tokens in a row.
    pub(crate) fn check(&self, rows: u32, count: u32, format: &Format) -> Option<String> {
        let (kind, format) = (self.kind.with_article(), format.described());
        let size = if rows == 1 { count.to_string() } else { format!("[{rows}, {count}]") };
        if self.each.is_none() {
            let problem = format!("is {size}, and {format} writes {kind} as one part: expected 1");
            return (rows != 1 || count != 1).then_some(problem);
        }
        if rows != 1 && self.between.is_none() {
            let problem = format!("is {size}, and {format} has no rows: expected a number of ids");
            return Some(problem);
        }
        let least = if rows == 1 { self.least } else { 1 };
        if rows == 0 || count < least {
            let problem = format!("is {size}, too few for {kind} in {format}: expected 1 or more");
            return Some(problem);
        }
        None
    }

    /// Names of its control tokens.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        let around = self.open.iter().chain(&self.close).flat_map(names);
        around.chain(&self.each).chain(&self.between)
    }

    /// The control tokens that open it, by their names: the repeated token where it has no others.
    fn opener(&self) -> Vec<&String> {
        let opener: Vec<&String> = self.open.iter().flat_map(names).collect();
        if opener.is_empty() { self.each.iter().collect() } else { opener }
    }

    fn closer(&self) -> Vec<&String> {
        self.close.iter().flat_map(names).collect()
    }

    /// White space before it and after it.
    pub(crate) fn around(&self) -> (&str, &str) {
        let ends = if self.each.is_some() { &self.close } else { &self.open };
        (white(self.open.first()), white(ends.last()))
    }
}

/// The text of a literal; empty for other pieces.
fn white(piece: Option<&Piece>) -> &str {
    match piece {
        Some(Piece::Literal(text)) => text,
        _ => "",
    }
}

fn names(piece: &Piece) -> &[String] {
    match piece {
        Piece::Control(names) => names,
        _ => &[],
    }
}

/// Reads the tables `media`, in the order of [`MediaKind::ALL`].
pub(super) fn media(
    file: &BTreeMap<String, MediaFile>,
    patterns: &Patterns,
    used: &[bool],
    guarantee: Guarantee,
) -> Checked<Vec<MediaSpec>> {
    let known = MediaKind::ALL.map(MediaKind::name);
    if let Some(unknown) = file.keys().find(|key| !known.contains(&key.as_str())) {
        let problem = format!("is unknown, expected one of `{}`", known.join("`, `"));
        return wrong(format!("media.{unknown}"), problem);
    }
    let mut specs: Vec<MediaSpec> = Vec::new();
    for kind in MediaKind::ALL {
        let Some(table) = file.get(kind.name()) else { continue };
        let key = format!("media.{}", kind.name());
        let mut spec = one(kind, &key, table, patterns, guarantee)?;
        let is_used = |name: &&String| {
            let at = patterns.control.iter().position(|(known, _)| known == *name);
            at.is_some_and(|at| used[at])
        };
        if let Some(name) = spec.names().find(is_used) {
            let problem = format!("has `{{{name}}}`, which other patterns have, expected its own");
            return wrong(key, problem);
        }
        for other in &specs {
            check_beside(&key, &spec, other)?;
            if spec.opener() == other.opener() && spec.closer() == other.closer() {
                spec.least = 1;
            }
        }
        specs.push(spec);
    }
    Ok(specs)
}

fn one(
    kind: MediaKind,
    key: &str,
    file: &MediaFile,
    patterns: &Patterns,
    guarantee: Guarantee,
) -> Checked<MediaSpec> {
    let part = |name: &str, text: &str| patterns.pieces(&format!("{key}.{name}"), text, &[]);
    let open = part("open", &file.open)?;
    let close = part("close", &file.close)?;
    let token = |name: &str, text: Option<&String>| -> Checked<Option<String>> {
        let Some(text) = text else { return Ok(None) };
        match &part(name, text)?[..] {
            [Piece::Control(names)] if names.len() == 1 => Ok(names.first().cloned()),
            _ => wrong(format!("{key}.{name}"), "is no single control token, expected `{A}`"),
        }
    };
    let each = token("each", file.each.as_ref())?;
    let between = token("between", file.between.as_ref())?;
    // The text of an opener, between two of its tokens.
    let is_inside = |at: usize| {
        guarantee == Guarantee::Ids
            && matches!(open.get(at), Some(Piece::Literal(_)))
            && open[..at].iter().any(Piece::is_control)
            && open[at..].iter().any(Piece::is_control)
    };
    for (name, pieces) in [("open", &open), ("close", &close)] {
        let is_own = |(at, piece): (usize, &Piece)| match piece {
            Piece::Control(names) => names.len() == 1,
            Piece::Literal(text) => is_white(text) || name == "open" && is_inside(at),
            _ => false,
        };
        if !pieces.iter().enumerate().all(is_own) {
            let problem = match name {
                "open" => "has other text than between its control tokens, expected white space",
                _ => "has more than control tokens and white space, expected these only",
            };
            return wrong(format!("{key}.{name}"), problem);
        }
    }
    let controls = |pieces: &[Piece]| pieces.iter().filter(|piece| piece.is_control()).count();
    if controls(&open) == 0 && each.is_none() {
        return wrong(format!("{key}.open"), "has no control token, expected one or more");
    }
    if each.is_some() && controls(&close) == 0 {
        let problem = "has no control token, expected one: it tells two parts in a row apart";
        return wrong(format!("{key}.close"), problem);
    }
    if each.is_none() && (between.is_some() || !close.is_empty()) {
        let problem = "is missing beside `between` or `close`, expected the repeated token";
        return wrong(format!("{key}.each"), problem);
    }
    let all: Vec<bool> = open
        .iter()
        .enumerate()
        .map(|(at, piece)| piece.is_control() || is_inside(at))
        .chain(each.iter().map(|_| true))
        .chain(close.iter().map(Piece::is_control))
        .collect();
    let first = all.iter().position(|is| *is).unwrap_or_default();
    let end = all.iter().rposition(|is| *is).unwrap_or_default();
    if !all[first..end].iter().all(|is| *is) {
        return wrong(key, "has white space between its tokens, expected it around them only");
    }
    let least = u32::from(controls(&open) == 0 && each.is_some());
    let spec = MediaSpec { kind, open, each, between, close, least };
    let mut seen: Vec<&String> = Vec::new();
    for name in spec.names() {
        if seen.contains(&name) {
            return wrong(key, format!("has `{{{name}}}` twice, expected each token once"));
        }
        seen.push(name);
    }
    Ok(spec)
}

/// Checks that two kinds are told apart by their tokens.
fn check_beside(key: &str, spec: &MediaSpec, other: &MediaSpec) -> Checked<()> {
    let name = other.kind.name();
    if spec.around() != other.around() {
        let problem = format!("has other white space around it than `media.{name}`");
        return wrong(key, format!("{problem}, expected the same"));
    }
    let (own, others) = (spec.opener(), other.opener());
    let is_begun = own.starts_with(&others) || others.starts_with(&own);
    let shares = |one: &MediaSpec, two: &MediaSpec| {
        let mut tokens = one.each.iter().chain(&one.between);
        tokens.any(|token| two.names().any(|name| name == token))
    };
    let are_told_apart = own == others
        && spec.each.is_some()
        && other.each.is_some()
        && !shares(spec, other)
        && !shares(other, spec);
    if is_begun && !are_told_apart {
        let problem = format!("reads as `media.{name}`, expected another opener or `each`");
        return wrong(key, problem);
    }
    Ok(())
}

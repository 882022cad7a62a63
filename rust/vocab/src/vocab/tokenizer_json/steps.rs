//! The normalizers and pre-tokenizers of a file that the `tokenizers` library runs, one after the other. Their
//! patterns are matched by our own engine: the library does not count what a pattern costs.
//!
//! In: a component of a file. Out: its steps. Cost: linear in a text; a text that takes more steps than
//! with any real pattern is an error ([`Budget`]).

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use tokenizers::pattern::{Invert, Pattern};
use tokenizers::{
    NormalizedString, Normalizer, NormalizerWrapper, Offsets, PreTokenizedString, PreTokenizer,
    PreTokenizerWrapper, SplitDelimiterBehavior,
};

use super::foreign::guard;
use crate::error::{Error, Result};
use crate::split::{self, Regex, Splitter, Work};

/// Real files have a dozen at most, and each goes over the whole text.
const MAX_STEPS: usize = 256;

/// The remaining budget of steps for a text. No two threads share one; the library requires the
/// lock.
pub(super) struct Budget(AtomicU64);

impl Budget {
    /// No steps were left.
    const SPENT: u64 = u64::MAX;

    /// The whole budget of a text.
    pub(super) fn of_text(text: &str) -> Self {
        Self(AtomicU64::new(Work::of_text(text).left()))
    }

    /// Runs a pattern with the remaining budget.
    fn spend(&self, run: impl FnOnce(&Work)) -> tokenizers::Result<()> {
        let left = self.0.load(Ordering::Relaxed);
        if left != Self::SPENT {
            let work = Work::of_steps(left);
            run(&work);
            let left = if work.is_spent() { Self::SPENT } else { work.left() };
            self.0.store(left, Ordering::Relaxed);
        }
        if self.is_spent() { Err("too many steps of a pattern".into()) } else { Ok(()) }
    }

    fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::SPENT
    }

    /// # Errors
    /// [`Error`] if a text exceeded its budget.
    pub(super) fn check(&self, component: &'static str, text: &str) -> Result<()> {
        if self.is_spent() { Err(split::too_many_steps(component, text)) } else { Ok(()) }
    }
}

/// The source of matches.
enum Matcher {
    Regex(Regex),
    /// Every piece is a match, and so is the text between two matches.
    Pieces(Splitter),
}

/// A matcher for one text.
struct Counted<'a> {
    matcher: &'a Matcher,
    budget: &'a Budget,
}

impl Pattern for Counted<'_> {
    fn find_matches(&self, inside: &str) -> tokenizers::Result<Vec<(Offsets, bool)>> {
        if inside.is_empty() {
            return Ok(vec![((0, 0), false)]);
        }
        let (mut found, mut end) = (Vec::new(), 0);
        self.budget.spend(|work| match self.matcher {
            Matcher::Regex(regex) => regex.matches(inside, work, &mut |range| {
                if end < range.start {
                    found.push(((end, range.start), false));
                }
                end = range.end;
                found.push(((range.start, range.end), true));
            }),
            Matcher::Pieces(splitter) => splitter.split_dyn(inside, work, &mut |piece| {
                found.push(((end, end + piece.len()), true));
                end += piece.len();
            }),
        })?;
        if end < inside.len() {
            found.push(((end, inside.len()), false));
        }
        Ok(found)
    }
}

enum Change {
    Library(NormalizerWrapper),
    Replace { matcher: Matcher, content: String },
}

/// The normalizers of a file.
#[derive(Default)]
pub(super) struct Normalizers(Vec<Change>);

/// The normalizers for one text.
pub(super) struct Normalizing<'a> {
    pub(super) steps: &'a Normalizers,
    pub(super) budget: &'a Budget,
}

impl Normalizers {
    pub(super) fn read(component: &Value) -> Result<Self> {
        let changes =
            flat(component, "normalizers", "normalizer")?.into_iter().map(|step| match pattern_of(
                step,
            ) {
                Some(pattern) => {
                    let content = step.get("content").and_then(Value::as_str);
                    let problem = "`Replace` without a string as `content`";
                    let content = content.ok_or_else(|| Error::new("normalizer", problem))?;
                    let matcher = Regex::of_oniguruma(pattern).map_err(in_normalizer)?;
                    let matcher = Matcher::Regex(matcher);
                    Ok(Change::Replace { matcher, content: content.to_owned() })
                }
                None => guard("normalizer", || Ok(serde_json::from_value(step.clone())?))
                    .map(Change::Library),
            });
        changes.collect::<Result<_>>().map(Self)
    }
}

/// An error of a pattern, in a normalizer.
fn in_normalizer(error: Error) -> Error {
    Error { component: "normalizer", ..error }
}

impl Normalizer for Normalizing<'_> {
    fn normalize(&self, text: &mut NormalizedString) -> tokenizers::Result<()> {
        self.steps.0.iter().try_for_each(|step| match step {
            Change::Library(normalizer) => normalizer.normalize(text),
            Change::Replace { matcher, content } => {
                text.replace(Counted { matcher, budget: self.budget }, content)
            }
        })
    }
}

enum Cut {
    Library(PreTokenizerWrapper),
    Split { matcher: Matcher, behavior: SplitDelimiterBehavior, invert: bool },
}

/// The pre-tokenizers of a file.
#[derive(Default)]
pub(super) struct PreTokenizers(Vec<Cut>);

impl PreTokenizers {
    pub(super) fn read(component: &Value) -> Result<Self> {
        let cuts = flat(component, "pretokenizers", "pre_tokenizer")?.into_iter().map(|step| {
            let Some(pattern) = pattern_of(step) else {
                let library = || Ok(serde_json::from_value(step.clone())?);
                return guard("pre_tokenizer", library).map(Cut::Library);
            };
            let behavior = step.get("behavior").cloned().unwrap_or_default();
            let behavior = guard("pre_tokenizer", || Ok(serde_json::from_value(behavior)?))?;
            let invert = step.get("invert") == Some(&Value::Bool(true));
            let matcher = if behavior == SplitDelimiterBehavior::Isolated {
                Splitter::from_oniguruma(pattern).map(Matcher::Pieces)
            } else {
                Regex::of_oniguruma(pattern).map(Matcher::Regex)
            };
            Ok(Cut::Split { matcher: matcher?, behavior, invert })
        });
        cuts.collect::<Result<_>>().map(Self)
    }

    pub(super) fn run(
        &self,
        text: &mut PreTokenizedString,
        budget: &Budget,
    ) -> tokenizers::Result<()> {
        self.0.iter().try_for_each(|step| match step {
            Cut::Library(pre_tokenizer) => pre_tokenizer.pre_tokenize(text),
            Cut::Split { matcher, behavior, invert } => text.split(|_, piece| {
                let pattern = Counted { matcher, budget };
                if *invert {
                    piece.split(Invert(pattern), *behavior)
                } else {
                    piece.split(pattern, *behavior)
                }
            }),
        })
    }
}

/// A component, or the components inside it, in order.
fn flat<'a>(
    component: &'a Value,
    inside: &'static str,
    name: &'static str,
) -> Result<Vec<&'a Value>> {
    let mut found = Vec::new();
    let mut left = vec![component];
    while let Some(component) = left.pop() {
        let is_sequence = kind_of(component).is_none_or(|kind| kind == "Sequence");
        match component.get(inside).and_then(Value::as_array) {
            Some(parts) if is_sequence => left.extend(parts.iter().rev()),
            _ if component.is_null() => {}
            _ => found.push(component),
        }
    }
    if found.len() > MAX_STEPS {
        let problem = format!("{} of them, at most {MAX_STEPS}", found.len());
        return Err(Error::new(name, problem));
    }
    Ok(found)
}

fn kind_of(component: &Value) -> Option<&str> {
    component.get("type").and_then(Value::as_str)
}

/// The regular expression of a component, if it has one.
fn pattern_of(component: &Value) -> Option<&str> {
    let has_one = kind_of(component).is_none_or(|kind| matches!(kind, "Replace" | "Split"));
    component.pointer("/pattern/Regex").and_then(Value::as_str).filter(|_| has_one)
}

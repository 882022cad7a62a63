//! Explanation of how a vocabulary was read, for people who examine an id or a refusal.
//!
//! In: a vocabulary. Out: a [`VocabReport`], in words. Cost: linear in the vocabulary.

use std::collections::BTreeMap;
use std::fmt;

use super::model::Engine;
use super::{TokenId, Vocab};

/// Explanation of how a vocabulary was read.
///
/// ```
/// use chatcodec_vocab::Vocab;
///
/// let report = Vocab::embedded().report();
/// assert!(report.losses.is_empty()); // every text comes back from its ids
/// assert!(report.missing_bytes.is_empty());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VocabReport {
    /// Engine that encodes text: `"bytes"` or `"characters"` for the built-in engines, by the units that
    /// they merge, or `"tokenizers"` for the library.
    pub engine: &'static str,
    /// Reason for the choice of the engine.
    pub engine_reason: String,
    /// Reasons why some texts do not come back from their ids; empty if [`Vocab::lossless`] is true.
    pub losses: Vec<String>,
    /// Normalisation of text before it is split.
    pub normalizer: String,
    /// Splitter of text before tokens merge.
    pub pre_tokenizer: String,
    /// Source of the splitter.
    pub known_by: String,
    /// Bytes of UTF-8 without a token: text with one of them is refused.
    pub missing_bytes: Vec<u8>,
    /// Added tokens that are text, each with the rule that decided it.
    pub text_rules: BTreeMap<String, &'static str>,
    /// Control tokens that a format put after the last id.
    pub appended: BTreeMap<String, TokenId>,
    /// 64-bit fingerprint of the tokens of a file of ranks, which identifies known files.
    pub fingerprint: Option<String>,
}

/// The rule for tokens that the caller of the loader names.
const BY_CALLER: &str = "the caller says so";

impl Vocab {
    /// Explains how this vocabulary is read: its engine, losses, and findings about its files.
    #[must_use]
    pub fn report(&self) -> VocabReport {
        let model = &self.inner.definition.model;
        let findings = &model.findings;
        let (engine, engine_reason, missing_bytes) = match &model.engine {
            Engine::Chars(_) => ("characters", "BPE of characters is run by our engine", vec![]),
            Engine::Bytes(bpe) => {
                let missing = bpe.lacking().collect();
                ("bytes", "byte-level BPE is run by our engine", missing)
            }
            #[cfg(feature = "foreign")]
            Engine::Foreign(_) => ("tokenizers", "our engines do not run it", vec![]),
        };
        let engine_reason = match &findings.refused {
            Some(refused) => format!("{engine_reason}: {refused}"),
            None => engine_reason.to_owned(),
        };
        let rules = self.text_tokens().into_iter();
        let appended = self.inner.definition.appended.iter();
        VocabReport {
            engine,
            engine_reason,
            losses: findings.losses.clone(),
            normalizer: findings.normalizer.clone().unwrap_or_else(|| model.normalizer.describe()),
            pre_tokenizer: findings.pre_tokenizer.clone(),
            known_by: findings.known_by.clone(),
            missing_bytes,
            text_rules: rules
                .map(|token| (token.spelling, token.reason.unwrap_or(BY_CALLER)))
                .collect(),
            appended: appended
                .filter_map(|spelling| {
                    Some((spelling.clone(), *self.inner.definition.control.get(spelling)?))
                })
                .collect(),
            fingerprint: findings.fingerprint.clone(),
        }
    }
}

impl VocabReport {
    /// The report as pairs of a name and a fact, without empty facts.
    #[must_use]
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![("engine", format!("{}: {}", self.engine, self.engine_reason))];
        facts.extend(self.losses.iter().map(|loss| ("loss", loss.clone())));
        facts.push(("normalizer", self.normalizer.clone()));
        facts.push(("text parted", format!("{}; known by {}", self.pre_tokenizer, self.known_by)));
        facts.extend(self.fingerprint.iter().map(|bits| ("fingerprint", bits.clone())));
        let mut rules: BTreeMap<&str, usize> = BTreeMap::new();
        for &rule in self.text_rules.values() {
            *rules.entry(rule).or_default() += 1;
        }
        let counted = |(rule, count)| ("text", format!("{count} added tokens: {rule}"));
        facts.extend(rules.into_iter().map(counted));
        let appended = self.appended.iter();
        facts.extend(appended.map(|(spelling, id)| ("appended", format!("{id} {spelling}"))));
        facts
    }
}

impl fmt::Display for VocabReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = self.facts();
        let lines: Vec<String> =
            facts.iter().map(|(name, fact)| format!("{name}: {fact}")).collect();
        f.write_str(&lines.join("\n"))
    }
}

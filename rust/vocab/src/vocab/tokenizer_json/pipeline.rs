//! Decides which of a file's components our own engines run exactly; the others are named.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::file::File;
use crate::bpe::SPACE_MARK;
use crate::error::{Error, Result};
use crate::split::{self, Splitter};
use crate::vocab::DummyPrefix;
use crate::vocab::normalize::Normalizer;

/// The steps around a BPE model that we run.
pub(super) struct Pipeline {
    pub(super) normalizer: Normalizer,
    pub(super) merging: Merging,
}

/// The symbols that merge, and the preparation of text.
pub(super) enum Merging {
    /// Bytes, written in GPT-2's alphabet, within the pieces that a splitter makes.
    Bytes(Splitter),
    /// Characters, with a mark for the space; a character without a token falls back to bytes.
    Chars(Spaces),
}

/// The treatment of spaces before characters merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spaces {
    pub(super) prefix: DummyPrefix,
    /// Text that begins with a space gets no second one.
    pub(super) shares_prefix: bool,
    /// Merges do not cross the start of a word.
    pub(super) splits: bool,
    /// Whether spaces are marked before added tokens that are normalised are looked for.
    pub(super) marked_first: bool,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type")]
enum NormalizerSpec {
    #[serde(rename = "NFC")]
    Nfc,
    #[serde(rename = "NFD")]
    Nfd,
    #[serde(rename = "NFKC")]
    Nfkc,
    #[serde(rename = "NFKD")]
    Nfkd,
    Lowercase,
    Strip {
        strip_left: bool,
        strip_right: bool,
    },
    Prepend {
        prepend: String,
    },
    Replace {
        pattern: Pattern,
        content: String,
    },
    Sequence {
        normalizers: Vec<NormalizerSpec>,
    },
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type")]
enum PreTokenizerSpec {
    ByteLevel {
        add_prefix_space: bool,
        #[serde(default = "yes")]
        use_regex: bool,
    },
    Split {
        pattern: Pattern,
        behavior: String,
        #[serde(default)]
        invert: bool,
    },
    Digits {
        individual_digits: bool,
    },
    Metaspace {
        replacement: String,
        #[serde(default)]
        add_prefix_space: Option<bool>,
        #[serde(default)]
        prepend_scheme: Option<Scheme>,
        #[serde(default)]
        split: Option<bool>,
    },
    Sequence {
        pretokenizers: Vec<PreTokenizerSpec>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Scheme {
    First,
    Never,
    Always,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
enum Pattern {
    String(String),
    Regex(String),
}

fn yes() -> bool {
    true
}

/// The pattern of GPT-2's pre-tokenizer, which is part of `ByteLevel`.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// An error that names a component that our own engines do not run.
pub(super) fn unsupported(component: &'static str, what: impl AsRef<str>) -> Error {
    Error::new(component, format!("{} is not implemented", what.as_ref()))
}

/// Reads the components around a BPE model.
///
/// # Errors
/// [`Error`] that names the first component which our engines do not run.
pub(super) fn read(file: &File<'_>) -> Result<Pipeline> {
    let model = &file.model;
    if model.dropout.is_some_and(|dropout| dropout != 0.0) {
        return Err(unsupported("model", "`dropout`"));
    }
    for (name, affix) in [
        ("`continuing_subword_prefix`", &model.continuing_subword_prefix),
        ("`end_of_word_suffix`", &model.end_of_word_suffix),
    ] {
        if affix.as_ref().is_some_and(|affix| !affix.is_empty()) {
            return Err(unsupported("model", name));
        }
    }
    let normalizers = match component("normalizer", file.normalizer)? {
        None => Vec::new(),
        Some(spec) => flat(spec, |spec| match spec {
            NormalizerSpec::Sequence { normalizers } => Err(normalizers),
            one => Ok(one),
        }),
    };
    let pre_tokenizers = match component("pre_tokenizer", file.pre_tokenizer)? {
        None => Vec::new(),
        Some(spec) => flat(spec, |spec| match spec {
            PreTokenizerSpec::Sequence { pretokenizers } => Err(pretokenizers),
            one => Ok(one),
        }),
    };
    let decoders = decoder_names(file.decoder)?;
    let accept = |names: &[&str]| match decoders.iter().find(|name| !names.contains(&name.as_str()))
    {
        None => Ok(()),
        Some(name) => Err(unsupported("decoder", format!("`{name}` with this model"))),
    };
    if let Some((PreTokenizerSpec::ByteLevel { add_prefix_space, use_regex }, before)) =
        pre_tokenizers.split_last()
    {
        accept(&["ByteLevel", "Fuse"])?;
        if *add_prefix_space {
            return Err(unsupported("pre_tokenizer", "`add_prefix_space` of `ByteLevel`"));
        }
        let mut splitters = before.iter().map(splitter).collect::<Result<Vec<_>>>()?;
        if *use_regex {
            splitters.push(Splitter::from_pattern(GPT2)?);
        }
        let merging = Merging::Bytes(Splitter::sequence(splitters));
        return Ok(Pipeline { normalizer: only(&normalizers)?, merging });
    }
    accept(&["Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"])?;
    if model.ignore_merges == Some(true) {
        return Err(unsupported("model", "`ignore_merges` without `ByteLevel`"));
    }
    if model.byte_fallback != Some(true) {
        return Err(unsupported("model", "a BPE model without `ByteLevel` or `byte_fallback`"));
    }
    of_chars(&normalizers, &pre_tokenizers)
}

/// A file's component, `None` where it has none.
fn component<T: DeserializeOwned>(name: &'static str, raw: Option<&RawValue>) -> Result<Option<T>> {
    let Some(raw) = raw else { return Ok(None) };
    serde_json::from_str(raw.get()).map(Some).map_err(|error| unsupported(name, error.to_string()))
}

/// A component and those within it, in order.
fn flat<T>(spec: T, open: impl Fn(T) -> std::result::Result<T, Vec<T>> + Copy) -> Vec<T> {
    match open(spec) {
        Ok(one) => vec![one],
        Err(many) => many.into_iter().flat_map(|spec| flat(spec, open)).collect(),
    }
}

fn decoder_names(raw: Option<&RawValue>) -> Result<Vec<String>> {
    #[derive(Deserialize)]
    struct Spec {
        #[serde(rename = "type")]
        name: String,
        #[serde(default)]
        decoders: Vec<Spec>,
    }
    let Some(spec) = component::<Spec>("decoder", raw)? else { return Ok(Vec::new()) };
    let specs = flat(spec, |spec| match spec.name.as_str() {
        "Sequence" => Err(spec.decoders),
        _ => Ok(spec),
    });
    Ok(specs.into_iter().map(|spec| spec.name).collect())
}

/// A step of splitting that keeps all of the text.
fn splitter(spec: &PreTokenizerSpec) -> Result<Splitter> {
    match spec {
        PreTokenizerSpec::Split { pattern, behavior, .. } if behavior == "Isolated" => {
            match pattern {
                Pattern::Regex(pattern) => Splitter::from_oniguruma(pattern),
                Pattern::String(text) => Splitter::from_pattern(&escape(text)),
            }
        }
        // Text outside matches is removed: none, if the matches cover every text.
        PreTokenizerSpec::Split { pattern: Pattern::Regex(pattern), behavior, invert: true }
            if behavior == "Removed" && split::covers_every_text(pattern) =>
        {
            Splitter::from_oniguruma(pattern)
        }
        PreTokenizerSpec::Split { behavior, invert, .. } => {
            let inverted = if *invert { ", inverted" } else { "" };
            let problem = format!("`Split` with `{behavior}`{inverted}, which may remove text,");
            Err(unsupported("pre_tokenizer", problem))
        }
        PreTokenizerSpec::Digits { individual_digits } => Ok(Splitter::digits(*individual_digits)),
        spec => Err(unsupported("pre_tokenizer", format!("{spec:?} before `ByteLevel`"))),
    }
}

/// A regular expression that matches this text alone.
fn escape(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() * 2);
    for c in text.chars() {
        if c.is_ascii_punctuation() {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

/// The one normalisation of a list; several in a row may not be idempotent.
fn only(specs: &[NormalizerSpec]) -> Result<Normalizer> {
    match specs {
        [] => Ok(Normalizer::Identity),
        [one] => normalizer(one),
        _ => Err(unsupported("normalizer", "a sequence of these normalizers")),
    }
}

fn normalizer(spec: &NormalizerSpec) -> Result<Normalizer> {
    Ok(match spec {
        NormalizerSpec::Nfc => Normalizer::Nfc,
        NormalizerSpec::Nfd => Normalizer::Nfd,
        NormalizerSpec::Nfkc => Normalizer::Nfkc,
        NormalizerSpec::Nfkd => Normalizer::Nfkd,
        NormalizerSpec::Lowercase => Normalizer::Lowercase,
        &NormalizerSpec::Strip { strip_left: left, strip_right: right } => {
            Normalizer::Strip { left, right }
        }
        NormalizerSpec::Replace { pattern: Pattern::String(pattern), content } => {
            let replace = Normalizer::replace(pattern, content);
            replace.ok_or_else(|| unsupported("normalizer", format!("{spec:?}")))?
        }
        spec => return Err(unsupported("normalizer", format!("{spec:?} with this model"))),
    })
}

/// The components around a model of characters: how the space becomes its mark, and what comes before.
fn of_chars(normalizers: &[NormalizerSpec], pre: &[PreTokenizerSpec]) -> Result<Pipeline> {
    let is_mark = |text: &str| text.chars().eq([SPACE_MARK]);
    let marks_spaces = |spec: &NormalizerSpec| {
        matches!(spec, NormalizerSpec::Replace { pattern: Pattern::String(pattern), content }
            if pattern == " " && is_mark(content))
    };
    let is_prefix = |spec: &NormalizerSpec| matches!(spec, NormalizerSpec::Prepend { prepend } if is_mark(prepend));
    let mut spaces = Spaces {
        prefix: DummyPrefix::Never,
        shares_prefix: false,
        splits: false,
        marked_first: true,
    };
    let before = match normalizers {
        [before @ .., last] if marks_spaces(last) => {
            // A string that a normalizer has replaced everywhere splits nothing afterwards.
            let is_gone = |text: &str| {
                normalizers.iter().any(|spec| {
                    matches!(spec, NormalizerSpec::Replace { pattern: Pattern::String(pattern), content }
                        if pattern == text && Normalizer::replace(pattern, content).is_some())
                })
            };
            for spec in pre {
                match spec {
                    PreTokenizerSpec::Split { pattern: Pattern::String(text), .. }
                        if is_gone(text) => {}
                    spec => return Err(unsupported("pre_tokenizer", format!("{spec:?}"))),
                }
            }
            match before {
                [first] if is_prefix(first) => {
                    spaces.prefix = DummyPrefix::EveryRun;
                    &[]
                }
                before => before,
            }
        }
        before => {
            let [
                PreTokenizerSpec::Metaspace {
                    replacement,
                    add_prefix_space,
                    prepend_scheme,
                    split,
                },
            ] = pre
            else {
                let found = format!("{pre:?} without a normalizer that marks spaces");
                return Err(unsupported("pre_tokenizer", found));
            };
            if !is_mark(replacement) {
                return Err(unsupported("pre_tokenizer", "another mark of spaces than U+2581"));
            }
            spaces = metaspace(*add_prefix_space, *prepend_scheme, *split)?;
            before
        }
    };
    let normalizer = only(before)?;
    Ok(Pipeline { normalizer, merging: Merging::Chars(spaces) })
}

fn metaspace(
    add_prefix_space: Option<bool>,
    scheme: Option<Scheme>,
    split: Option<bool>,
) -> Result<Spaces> {
    let scheme = match (scheme, add_prefix_space) {
        (Some(Scheme::Never) | None, Some(false)) => Scheme::Never,
        (_, Some(false)) => {
            let problem = "`add_prefix_space` is false, and `prepend_scheme` is not `never`";
            return Err(Error::new("pre_tokenizer", problem));
        }
        (scheme, _) => scheme.unwrap_or(Scheme::Always),
    };
    let prefix = match scheme {
        Scheme::First => DummyPrefix::FirstRun,
        Scheme::Never => DummyPrefix::Never,
        Scheme::Always => DummyPrefix::EveryRun,
    };
    let shares_prefix = prefix != DummyPrefix::Never;
    let splits = split.unwrap_or(true);
    Ok(Spaces { prefix, shares_prefix, splits, marked_first: false })
}

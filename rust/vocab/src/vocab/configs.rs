//! The files beside a vocabulary: its added tokens, and its settings.
//!
//! In: `tokenizer_config.json`, `added_tokens.json`, `special_tokens_map.json`, `specials.json` and the
//! caller's options. Out: one [`Added`] without contradictions. A `special` flag that is off is
//! ignored: an added token is control unless its spelling is known to be text.

use std::fmt;
use std::marker::PhantomData;

use hashbrown::{HashMap, HashSet};
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::model::Strips;
use super::{TokenId, VocabFiles};
use crate::error::{Error, Result};

/// The names of these files.
pub(super) const CONFIGS: [&str; 4] =
    ["specials.json", "added_tokens.json", "tokenizer_config.json", "special_tokens_map.json"];

/// The name used instead of a file's for a special token that the caller gives.
const BY_CALLER: &str = "special_tokens";

/// An added token of a vocabulary.
#[derive(Debug)]
pub(super) struct AddedToken {
    pub(super) spelling: String,
    pub(super) id: TokenId,
    /// Its effect on adjacent white space, if the file states one.
    pub(super) strips: Option<Strips>,
    /// The file that lists it.
    pub(super) file: &'static str,
}

/// Content of the files beside a vocabulary.
#[derive(Debug, Default)]
pub(super) struct Added {
    /// The added tokens; no spelling occurs twice.
    pub(super) tokens: Vec<AddedToken>,
    /// Spellings of special tokens whose ids the vocabulary itself has.
    pub(super) names: Vec<String>,
    /// `tokenizer_class`.
    pub(super) class: Option<String>,
    /// The regular expression that splits text before merging.
    pub(super) pattern: Option<String>,
    /// The source of the expression.
    pub(super) pattern_from: &'static str,
    /// `add_prefix_space`.
    pub(super) add_prefix_space: bool,
    /// Spellings that one of the files lists as special.
    pub(super) special: HashSet<String>,
    by_spelling: HashMap<String, usize>,
}

impl Added {
    /// Reads the files beside a vocabulary.
    pub(super) fn read(files: &VocabFiles) -> Result<Self> {
        let mut added = Self::default();
        for (spelling, id) in &files.options.special_tokens {
            added.add(BY_CALLER, spelling.clone(), *id, None)?;
        }
        for file in CONFIGS {
            let mut found = files.files.iter().filter(|(name, _)| name == file);
            let Some((_, bytes)) = found.next() else { continue };
            if found.next().is_some() {
                return Err(Error::new(file, "stands twice"));
            }
            match file {
                "specials.json" => added.read_specials(file, bytes)?,
                "added_tokens.json" => {
                    for (spelling, id) in parse::<Pairs<TokenId>>(file, bytes)?.0 {
                        added.add(file, spelling, id, None)?;
                    }
                }
                "tokenizer_config.json" => added.read_tokenizer_config(file, bytes)?,
                _ => added.read_names(&parse(file, bytes)?),
            }
        }
        added.special.extend(added.names.iter().cloned());
        if let Some(pattern) = &files.options.pattern {
            (added.pattern, added.pattern_from) =
                (Some(pattern.clone()), "`pattern` of the caller");
        }
        Ok(added)
    }

    /// Whether the caller alone gives the ids of added tokens.
    pub(super) fn has_no_ids_of_files(&self) -> bool {
        self.tokens.iter().all(|token| token.file == BY_CALLER)
    }

    fn read_specials(&mut self, file: &'static str, bytes: &[u8]) -> Result<()> {
        #[derive(serde::Deserialize)]
        struct Specials {
            #[serde(default)]
            special_tokens: Pairs<TokenId>,
            #[serde(default)]
            aliases: Pairs<TokenId>,
            pattern: Option<String>,
        }
        let specials: Specials = parse(file, bytes)?;
        for (spelling, id) in specials.special_tokens.0.into_iter().chain(specials.aliases.0) {
            self.special.insert(spelling.clone());
            self.add(file, spelling, id, None)?;
        }
        (self.pattern, self.pattern_from) = (specials.pattern, "`pattern` in `specials.json`");
        Ok(())
    }

    fn read_tokenizer_config(&mut self, file: &'static str, bytes: &[u8]) -> Result<()> {
        #[derive(serde::Deserialize)]
        struct Config {
            tokenizer_class: Option<String>,
            #[serde(default)]
            added_tokens_decoder: Pairs<Token>,
            #[serde(flatten)]
            rest: serde_json::Map<String, Value>,
        }
        #[derive(serde::Deserialize)]
        struct Token {
            content: String,
            #[serde(default)]
            lstrip: bool,
            #[serde(default)]
            rstrip: bool,
            #[serde(default)]
            special: bool,
        }
        let config: Config = parse(file, bytes)?;
        for (id, token) in config.added_tokens_decoder.0 {
            let id = id.parse().map_err(|_| {
                Error::new(file, format!("`added_tokens_decoder` has key `{id}`, expected an id"))
            })?;
            let strips = Strips { left: token.lstrip, right: token.rstrip };
            if token.special {
                self.special.insert(token.content.clone());
            }
            self.add(file, token.content, id, Some(strips))?;
        }
        self.class = config.tokenizer_class;
        self.add_prefix_space = config.rest.get("add_prefix_space") == Some(&Value::Bool(true));
        self.read_names(&config.rest);
        Ok(())
    }

    /// The spellings of named special tokens: `bos_token`, `additional_special_tokens` …
    fn read_names(&mut self, config: &serde_json::Map<String, Value>) {
        for (key, value) in config {
            match value {
                Value::Array(list) if key.ends_with("_tokens") => {
                    self.names.extend(list.iter().filter_map(spelling_of));
                }
                // `extra_special_tokens`, by purpose.
                Value::Object(map) if key.ends_with("_tokens") => {
                    self.names.extend(map.values().filter_map(spelling_of));
                }
                value if key.ends_with("_token") => self.names.extend(spelling_of(value)),
                _ => {}
            }
        }
    }

    fn add(
        &mut self,
        file: &'static str,
        spelling: String,
        id: TokenId,
        strips: Option<Strips>,
    ) -> Result<()> {
        if spelling.is_empty() {
            return Err(Error::new(file, format!("id {id} is spelled ``, expected a spelling")));
        }
        if id < 0 {
            let problem = format!("`{spelling}` has id {id}, expected one from 0");
            return Err(Error::new(file, problem));
        }
        if let Some(known) = self.by_spelling.get(&spelling).and_then(|&at| self.tokens.get_mut(at))
        {
            if known.id != id {
                let (first, other) = (known.id, known.file);
                let problem = format!("`{spelling}` has id {id}, in `{other}` {first}");
                return Err(Error::new(file, problem));
            }
            known.strips = strips.or(known.strips);
            return Ok(());
        }
        self.by_spelling.insert(spelling.clone(), self.tokens.len());
        self.tokens.push(AddedToken { spelling, id, strips, file });
        Ok(())
    }
}

/// The spelling of a special token that is given as a string or as an object.
fn spelling_of(value: &Value) -> Option<String> {
    let text = value.as_str().or_else(|| value.get("content")?.as_str())?;
    (!text.is_empty()).then(|| text.to_owned())
}

/// Reads a JSON file.
pub(super) fn parse<T: DeserializeOwned>(file: &'static str, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| Error::new(file, error.to_string()))
}

/// The members of a JSON object in order, those with equal keys too.
#[derive(Debug)]
pub(super) struct Pairs<T>(pub(super) Vec<(String, T)>);

impl<T> Default for Pairs<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Pairs<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = Pairs<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(Members(PhantomData))
    }
}

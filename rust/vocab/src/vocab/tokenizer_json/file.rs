//! The content of a `tokenizer.json`, borrowed from its bytes: one pass; only escaped strings are
//! copied.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::{Error, Result};

/// Merges beyond this are refused, and so are tokens: real vocabularies have a quarter of a million.
const MAX_ENTRIES: usize = 4 << 20;

/// A string of the file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

#[derive(Deserialize)]
pub(super) struct File<'a> {
    #[serde(default, borrow)]
    pub(super) added_tokens: Option<Vec<AddedToken<'a>>>,
    #[serde(default, borrow)]
    pub(super) normalizer: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) pre_tokenizer: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) decoder: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) model: Model<'a>,
}

#[derive(Debug, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "the file's own flags")]
pub(super) struct AddedToken<'a> {
    pub(super) id: u32,
    #[serde(borrow)]
    pub(super) content: Text<'a>,
    #[serde(default)]
    pub(super) single_word: bool,
    #[serde(default)]
    pub(super) lstrip: bool,
    #[serde(default)]
    pub(super) rstrip: bool,
    #[serde(default)]
    pub(super) normalized: bool,
    #[serde(default)]
    pub(super) special: bool,
}

/// The model, of any type; members that its type lacks are absent.
#[derive(Deserialize)]
pub(super) struct Model<'a> {
    #[serde(default, rename = "type", borrow)]
    kind: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) vocab: VocabTable<'a>,
    #[serde(default, borrow)]
    pub(super) merges: Option<Merges<'a>>,
    #[serde(default)]
    pub(super) dropout: Option<f64>,
    #[serde(default, borrow)]
    pub(super) unk_token: Option<Text<'a>>,
    #[serde(default)]
    pub(super) unk_id: Option<usize>,
    #[serde(default, borrow)]
    pub(super) continuing_subword_prefix: Option<Text<'a>>,
    #[serde(default, borrow)]
    pub(super) end_of_word_suffix: Option<Text<'a>>,
    #[serde(default)]
    pub(super) max_input_chars_per_word: Option<usize>,
    #[serde(default)]
    #[cfg_attr(not(feature = "foreign"), allow(dead_code, reason = "for the library alone"))]
    pub(super) fuse_unk: Option<bool>,
    #[serde(default)]
    pub(super) byte_fallback: Option<bool>,
    #[serde(default)]
    pub(super) ignore_merges: Option<bool>,
}

impl Model<'_> {
    /// The type; in old files it follows from the members.
    pub(super) fn kind(&self) -> &str {
        match (&self.kind, &self.vocab) {
            (Some(kind), _) => kind,
            (None, VocabTable::Scores(_)) => "Unigram",
            (None, _) if self.merges.is_some() => "BPE",
            (None, _) if self.max_input_chars_per_word.is_some() => "WordPiece",
            (None, _) => "WordLevel",
        }
    }
}

/// Tokens and their ids, or, for Unigram, tokens in the order of their ids and their scores.
pub(super) enum VocabTable<'a> {
    Ids(Vec<(Text<'a>, u32)>),
    Scores(Vec<(Text<'a>, f64)>),
}

/// Left and right of every merge, earlier ones first.
pub(super) struct Merges<'a>(pub(super) Vec<(Text<'a>, Text<'a>)>);

/// Reads a file's content.
pub(super) fn parse(bytes: &[u8]) -> Result<File<'_>> {
    serde_json::from_slice(bytes).map_err(|error| {
        let offset = offset(bytes, error.line(), error.column());
        Error { offset: Some(offset), component: "file", problem: error.to_string() }
    })
}

/// The place of a line and a column, which count from one.
fn offset(bytes: &[u8], line: usize, column: usize) -> usize {
    let line_ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let start = match line {
        0 | 1 => 0,
        line => line_ends.map(|(at, _)| at + 1).nth(line - 2).unwrap_or(0),
    };
    (start + column.saturating_sub(1)).min(bytes.len())
}

/// Whether `bytes` are a JSON object with a `model` that is an object: no other file of a vocabulary
/// has one. Reads no further than its start.
pub(super) fn is_tokenizer_json(bytes: &[u8]) -> bool {
    let mut found = false;
    // The search ends in the middle of the file, which the deserializer calls an error.
    let _ = serde_json::Deserializer::from_slice(bytes).deserialize_map(Search(&mut found));
    found
}

/// Looks for `model` among the keys of an object.
struct Search<'f>(&'f mut bool);

impl<'de> Visitor<'de> for Search<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        while let Some(key) = map.next_key::<Text<'de>>()? {
            if &*key == "model" {
                return map.next_value_seed(IsObject(self.0));
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// Records whether a value is an object.
struct IsObject<'f>(&'f mut bool);

impl<'de> DeserializeSeed<'de> for IsObject<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> std::result::Result<(), D::Error> {
        value.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for IsObject<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> std::result::Result<(), A::Error> {
        *self.0 = true;
        Ok(())
    }
}

fn check_count<E: de::Error>(entries: usize) -> std::result::Result<(), E> {
    if entries > MAX_ENTRIES {
        return Err(E::custom(format!("more than {MAX_ENTRIES} entries")));
    }
    Ok(())
}

impl<'de: 'a, 'a> Deserialize<'de> for VocabTable<'a> {
    fn deserialize<D: Deserializer<'de>>(value: D) -> std::result::Result<Self, D::Error> {
        struct Table;

        impl<'de> Visitor<'de> for Table {
            type Value = VocabTable<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tokens and ids, or a list of tokens and scores")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Self::Value, A::Error> {
                let mut ids = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    ids.push(entry);
                    check_count(ids.len())?;
                }
                Ok(VocabTable::Ids(ids))
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> std::result::Result<Self::Value, A::Error> {
                let mut scores = Vec::new();
                while let Some(entry) = list.next_element()? {
                    scores.push(entry);
                    check_count(scores.len())?;
                }
                Ok(VocabTable::Scores(scores))
            }
        }

        value.deserialize_any(Table)
    }
}

/// One merge: `"a b"`, or `["a", "b"]`, which can contain spaces. `None` for the version line at the
/// beginning of a list that was copied from a `merges.txt`.
struct Merge<'a>(Option<(Text<'a>, Text<'a>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Merge<'a> {
    fn deserialize<D: Deserializer<'de>>(value: D) -> std::result::Result<Self, D::Error> {
        struct Pair;

        fn split<E: de::Error>(merge: &str) -> std::result::Result<Option<(&str, &str)>, E> {
            if merge.starts_with("#version") {
                return Ok(None);
            }
            let parts = merge.split_once(' ').filter(|(_, right)| !right.contains(' '));
            let problem = || E::custom(format!("merge {merge:?}, expected two tokens and a space"));
            parts.map(Some).ok_or_else(problem)
        }

        impl<'de> Visitor<'de> for Pair {
            type Value = Merge<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a merge: two tokens")
            }

            fn visit_borrowed_str<E: de::Error>(
                self,
                merge: &'de str,
            ) -> std::result::Result<Self::Value, E> {
                let text = |text| Text(Cow::Borrowed(text));
                Ok(Merge(split(merge)?.map(|(left, right)| (text(left), text(right)))))
            }

            fn visit_str<E: de::Error>(self, merge: &str) -> std::result::Result<Self::Value, E> {
                let text = |text: &str| Text(Cow::Owned(text.to_owned()));
                Ok(Merge(split(merge)?.map(|(left, right)| (text(left), text(right)))))
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> std::result::Result<Self::Value, A::Error> {
                let (left, right) = (list.next_element()?, list.next_element()?);
                match (left, right, list.next_element::<IgnoredAny>()?) {
                    (Some(left), Some(right), None) => Ok(Merge(Some((left, right)))),
                    _ => Err(de::Error::custom("a merge of two tokens expected")),
                }
            }
        }

        value.deserialize_any(Pair)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Merges<'a> {
    fn deserialize<D: Deserializer<'de>>(value: D) -> std::result::Result<Self, D::Error> {
        struct List;

        impl<'de> Visitor<'de> for List {
            type Value = Merges<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of merges")
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> std::result::Result<Self::Value, A::Error> {
                let mut merges = Vec::new();
                while let Some(Merge(merge)) = list.next_element()? {
                    merges.extend(merge);
                    check_count(merges.len())?;
                }
                Ok(Merges(merges))
            }
        }

        value.deserialize_seq(List)
    }
}

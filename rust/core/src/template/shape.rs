//! The shape of a conversation: what the control tokens of a template may depend on.
//!
//! Structure is how many messages, parts, calls, tools and members there are; the names of fields; words of closed
//! sets, under `role` and `type` and as options; of what kind each value is, and whether it is empty; booleans. All
//! else is content: texts, numbers, and the names that stand in a schema's `properties` or among arguments.
//!
//! A harmless conversation has the structure of the caller's, and a word of its own in the place of each content.

/// Roles that templates write as words of their own.
pub(crate) const ROLES: [&str; 14] = [
    "system",
    "developer",
    "user",
    "assistant",
    "tool",
    "function",
    "ipython",
    "model",
    "environment",
    "observation",
    "human",
    "gpt",
    "bot",
    "tool_response",
];

/// Types of parts, of calls and tools, and of JSON Schema.
const TYPES: [&str; 31] = [
    "array",
    "audio",
    "audio_url",
    "boolean",
    "custom",
    "document",
    "file",
    "function",
    "image",
    "image_url",
    "input_audio",
    "input_file",
    "input_image",
    "input_text",
    "integer",
    "null",
    "number",
    "object",
    "output_text",
    "reasoning",
    "reasoning_text",
    "redacted_thinking",
    "refusal",
    "string",
    "summary_text",
    "text",
    "thinking",
    "tool_result",
    "tool_use",
    "video",
    "video_url",
];

/// Words of options: how much a model is to reason, what is on.
const OPTIONS: [&str; 17] = [
    "auto", "default", "disabled", "enabled", "false", "full", "high", "low", "max", "medium",
    "minimal", "no_think", "none", "off", "on", "true", "xhigh",
];

/// Names of fields, in the objects around messages: parts, calls, tools, schemas, documents.
const FIELDS: [&str; 114] = [
    "$defs",
    "$ref",
    "additionalProperties",
    "allOf",
    "annotations",
    "anyOf",
    "arguments",
    "audio",
    "audio_url",
    "author",
    "bytes",
    "cache_control",
    "call_id",
    "calls",
    "citations",
    "code",
    "const",
    "content",
    "contents",
    "custom",
    "data",
    "date",
    "default",
    "definitions",
    "dependentSchemas",
    "description",
    "detail",
    "doc_id",
    "document",
    "else",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "file",
    "file_id",
    "filename",
    "format",
    "fps",
    "function",
    "grammar",
    "height",
    "id",
    "if",
    "image",
    "image_url",
    "index",
    "input",
    "input_audio",
    "input_schema",
    "is_error",
    "items",
    "language",
    "maxItems",
    "maxLength",
    "maxProperties",
    "max_pixels",
    "maximum",
    "media_type",
    "metadata",
    "mime_type",
    "minItems",
    "minLength",
    "minProperties",
    "min_pixels",
    "minimum",
    "multipleOf",
    "name",
    "not",
    "nullable",
    "oneOf",
    "optional",
    "output",
    "output_schema",
    "page",
    "parameter_definitions",
    "parameters",
    "path",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "reasoning",
    "reasoning_content",
    "refusal",
    "required",
    "response",
    "result",
    "results",
    "return",
    "returns",
    "role",
    "score",
    "signature",
    "snippet",
    "snippets",
    "source",
    "strict",
    "summary",
    "syntax",
    "text",
    "then",
    "thinking",
    "title",
    "tool_call_id",
    "tool_use_id",
    "type",
    "uniqueItems",
    "url",
    "value",
    "video",
    "video_url",
    "width",
];

/// Where a value is, which says what of it is structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A message: whatever its fields are named.
    Message,
    /// An object of known fields.
    Object,
    /// Names that the caller chose, each with an object: a schema's `properties`.
    Names,
    /// Values that the caller chose: arguments, values of an `enum`.
    Data,
    /// A role of the closed set, or any text.
    Role,
    /// A type of the closed set, or any text.
    Type,
    /// A variable of the template: a word of an option, or any text.
    Variable,
    /// A key that is no string.
    Key,
}

impl Place {
    /// The place of a variable of the template.
    pub(super) fn of_variable(name: &str) -> Self {
        if matches!(name, "messages" | "tools" | "documents") {
            Self::Object
        } else {
            Self::Variable
        }
    }

    /// Whether a key is the name of a field.
    pub(super) fn is_field(self, key: &str) -> bool {
        match self {
            Self::Message => true,
            Self::Names | Self::Data => false,
            _ => FIELDS.binary_search(&key).is_ok(),
        }
    }

    /// The place of a member, by its key.
    pub(super) fn of_member(self, key: &str) -> Self {
        match (self, key) {
            (Self::Data, _) => Self::Data,
            (Self::Names, _) => Self::Object,
            (_, "role") => Self::Role,
            (_, "type") => Self::Type,
            (
                _,
                "properties"
                | "patternProperties"
                | "$defs"
                | "definitions"
                | "dependentSchemas"
                | "parameter_definitions",
            ) => Self::Names,
            (_, "arguments" | "input" | "enum" | "const" | "default" | "examples" | "metadata") => {
                Self::Data
            }
            _ => Self::Object,
        }
    }

    /// Whether a text is a word of a closed set, which belongs to the structure.
    pub(super) fn is_known(self, text: &str) -> bool {
        match self {
            Self::Role => ROLES.contains(&text),
            Self::Type => TYPES.binary_search(&text).is_ok(),
            Self::Variable => OPTIONS.binary_search(&text).is_ok(),
            Self::Key => true,
            _ => false,
        }
    }
}

/// Letters of harmless words, and how many a word has: as many as an id of Mistral's calls.
const LETTERS: [u8; 3] = *b"qxz";
const WORD: usize = 9;

/// The harmless word of a number, another one for each number.
pub(super) fn word(mut number: usize) -> String {
    let mut word = String::with_capacity(WORD);
    while word.len() < WORD || number > 0 {
        word.push(char::from(LETTERS[number % LETTERS.len()]));
        number /= LETTERS.len();
    }
    word
}

/// Whether a character, in either case, is one of harmless words.
pub(super) fn is_word_letter(c: char) -> bool {
    u8::try_from(c).is_ok_and(|c| LETTERS.contains(&c.to_ascii_lowercase()))
}

/// Whether a text has a harmless word in it.
pub(super) fn has_word(text: &str) -> bool {
    text.split(|c| !is_word_letter(c)).any(|letters| letters.len() >= WORD)
}

#[cfg(test)]
mod tests {
    use super::{FIELDS, OPTIONS, TYPES, has_word, word};

    #[test]
    fn closed_sets_are_sorted() {
        for words in [&FIELDS[..], &TYPES, &OPTIONS] {
            assert!(words.is_sorted(), "{words:?}");
        }
    }

    #[test]
    fn words_differ_and_are_known() {
        let words: std::collections::HashSet<String> = (0..30_000).map(word).collect();
        assert_eq!(words.len(), 30_000);
        assert!(words.iter().all(|word| has_word(word)));
        assert!(!has_word("qxz qxz Qx zebra"));
    }
}

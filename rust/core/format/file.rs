//! The format file as it stands, for serde: unknown keys and words are refused here.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Guarantee;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) name: String,
    pub(super) guarantee: Guarantee,
    pub(super) source: String,
    #[serde(default)]
    pub(super) begin: String,
    #[serde(default)]
    pub(super) end: String,
    pub(super) control: BTreeMap<String, OneOrMany>,
    #[serde(default)]
    pub(super) roles: BTreeMap<String, String>,
    pub(super) generation: GenerationFile,
    #[serde(default)]
    pub(super) place: PlaceFile,
    #[serde(default)]
    pub(super) tools: ToolsFile,
    pub(super) turn: TurnFile,
    #[serde(default)]
    pub(super) named: BTreeMap<String, NamedFile>,
    #[serde(default)]
    pub(super) call: BTreeMap<String, CallFile>,
}

#[derive(Deserialize, Clone)]
#[serde(untagged, expecting = "expected a string or a list of strings")]
pub(super) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    pub(super) fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GenerationFile {
    pub(super) prompt: String,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct PlaceFile {
    pub(super) tools: Option<ToolsPlace>,
}

/// Where the turn that declares tools stands.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToolsPlace {
    /// After the system messages that the conversation begins with.
    AfterSystem,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolsFile {
    pub(super) shape: Option<ToolsShape>,
    pub(super) style: Option<ToolsStyle>,
    pub(super) between: Option<String>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum ToolsShape {
    Openai,
    Function,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum ToolsStyle {
    Line,
    Indent,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TurnFile {
    pub(super) system: Option<String>,
    pub(super) user: String,
    pub(super) assistant: String,
    pub(super) tool: Option<String>,
    pub(super) tools: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NamedFile {
    pub(super) system: Option<String>,
    pub(super) tool: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CallFile {
    pub(super) item: OneOrMany,
    pub(super) object: Option<toml::Table>,
}

//! Which ids a `tokenizer.json` has, and what each is: a token of the model, an added one, control.

use hashbrown::HashMap;

use super::file::{AddedToken, File, VocabTable};
use crate::error::{Error, Result};
use crate::vocab::TokenId;
use crate::vocab::model::{Policy, Strips};

/// Higher ids are refused: one number in a file makes the tables that long.
const MAX_IDS: usize = 2 << 20;

/// The kind of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Without a token, or with one that spells nothing.
    Absent,
    /// A token of the model.
    Text,
    /// An added token that is ordinary text.
    Added,
    /// An added token that is control.
    Control,
    /// Another control token: the unknown token, and tokens that a format withheld.
    Withheld,
}

/// One id.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) text: &'a str,
    pub(super) role: Role,
    /// Whether the model has the id: then its characters may be in an alphabet of bytes.
    pub(super) in_model: bool,
}

/// Every id of a file, and its added tokens.
pub(super) struct Table<'a> {
    pub(super) rows: Vec<Row<'a>>,
    /// The tokens of the model.
    pub(super) ids: HashMap<&'a str, TokenId>,
    /// Added tokens that are text, with their ids.
    pub(super) added: Vec<(TokenId, &'a AddedToken<'a>)>,
    /// Spellings of added tokens that are control.
    pub(super) spellings: Vec<(String, TokenId)>,
    pub(super) strips: HashMap<TokenId, Strips>,
}

impl<'a> Table<'a> {
    pub(super) fn new(file: &'a File<'a>, policy: &Policy<'_>) -> Result<Self> {
        let mut table = Self {
            rows: Vec::new(),
            ids: HashMap::new(),
            added: Vec::new(),
            spellings: Vec::new(),
            strips: HashMap::new(),
        };
        table.put_model(file)?;
        for token in file.added_tokens.iter().flatten().filter(|token| !token.content.is_empty()) {
            table.put_added(token, policy)?;
        }
        let unknown = file.model.unk_token.as_ref();
        let unknown = unknown.and_then(|token| table.ids.get(&**token)).map(|&id| id as usize);
        table.withhold(unknown.into_iter().chain(file.model.unk_id));
        table.withhold((0..table.rows.len()).filter(|&id| policy.is_withheld(id as TokenId)));
        Ok(table)
    }

    fn put_model(&mut self, file: &'a File<'a>) -> Result<()> {
        match &file.model.vocab {
            VocabTable::Ids(ids) => {
                self.ids.reserve(ids.len());
                ids.iter().try_for_each(|(text, id)| self.put(text, *id))
            }
            VocabTable::Scores(scores) => {
                self.ids.reserve(scores.len());
                scores.iter().zip(0..).try_for_each(|((text, _), id)| self.put(text, id))
            }
        }
    }

    /// Puts one token of the model.
    fn put(&mut self, text: &'a str, id: u32) -> Result<()> {
        let row = self.row(id, "model")?;
        if row.in_model {
            let problem = format!("`{}` and `{text}` have id {id}", row.text);
            return Err(Error::new("model", problem));
        }
        let role = if text.is_empty() { Role::Absent } else { Role::Text };
        *row = Row { text, role, in_model: true };
        if self.ids.insert(text, id as TokenId).is_some() {
            return Err(Error::new("model", format!("`{text}` stands twice")));
        }
        Ok(())
    }

    fn put_added(&mut self, token: &'a AddedToken<'a>, policy: &Policy<'_>) -> Result<()> {
        self.row(token.id, "added_tokens")?;
        let (text, id) = (&*token.content, token.id as TokenId);
        if let Some(&known) = self.ids.get(text)
            && known != id
        {
            let problem = format!("`{text}` has id {id}, which is {known} in the model");
            return Err(Error::new("added_tokens", problem));
        }
        let is_text = policy.is_text(text, token.special);
        let row = self.row(token.id, "added_tokens")?;
        let is_free = row.role == Role::Absent || row.text == text;
        if !is_free && (is_text || row.role != Role::Control) {
            let problem = format!("`{text}` has id {id}, which is `{}`", row.text);
            return Err(Error::new("added_tokens", problem));
        }
        if is_text {
            if row.role != Role::Added {
                row.role = Role::Added;
                row.text = text;
                self.added.push((id, token));
            }
            return Ok(());
        }
        row.role = Role::Control;
        if is_free {
            row.text = text;
        }
        self.spellings.push((text.to_owned(), id));
        let strips = Strips { left: token.lstrip, right: token.rstrip };
        if strips != Strips::default() {
            self.strips.insert(id, strips);
        }
        Ok(())
    }

    /// Makes ids control.
    fn withhold(&mut self, ids: impl Iterator<Item = usize>) {
        for id in ids {
            if let Some(row) = self.rows.get_mut(id)
                && matches!(row.role, Role::Text | Role::Added)
            {
                row.role = Role::Withheld;
                self.added.retain(|(added, _)| *added != id as TokenId);
            }
        }
    }

    /// The row of an id, created if it is missing.
    fn row(&mut self, id: u32, component: &'static str) -> Result<&mut Row<'a>> {
        let at = id as usize;
        if at >= MAX_IDS {
            return Err(Error::new(component, format!("id {id}, expected one below {MAX_IDS}")));
        }
        if at >= self.rows.len() {
            let absent = Row { text: "", role: Role::Absent, in_model: false };
            self.rows.resize(at + 1, absent);
        }
        Ok(&mut self.rows[at])
    }

    /// Whether an id is a token of text.
    pub(super) fn is_text(&self, id: TokenId) -> bool {
        let row = usize::try_from(id).ok().and_then(|at| self.rows.get(at));
        row.is_some_and(|row| matches!(row.role, Role::Text | Role::Added))
    }
}

//! A call as a JSON object, `{"name": "f", "parameters": {…}}`: its keys, and the scanner that reads it.

mod scanner;

pub(crate) use scanner::{CallScanner, Step};

/// A member of a call's JSON object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Member {
    Name,
    Arguments,
    Id,
}

/// The members of a call's JSON object in the order of writing, with their keys: the first is written,
/// all are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectSpec {
    pub(crate) members: Vec<(Member, Vec<String>)>,
    /// Whether several are read where one is written.
    pub(crate) several: bool,
}

impl ObjectSpec {
    /// The member that a key names.
    pub(crate) fn member(&self, key: &str) -> Option<Member> {
        let named = |(_, keys): &&(Member, Vec<String>)| keys.iter().any(|known| known == key);
        self.members.iter().find(named).map(|&(member, _)| member)
    }

    pub(crate) fn has(&self, wanted: Member) -> bool {
        self.members.iter().any(|&(member, _)| member == wanted)
    }
}

//! Paths of the caller's values: `messages[1].content`, each with a number.

use std::fmt::Write;
use std::sync::Arc;

use super::input::REASONING_KEYS;

/// One step of a path, from the value around it.
#[derive(Debug, Clone)]
enum Step {
    Argument(Arc<str>),
    Item(usize),
    Key(Arc<str>),
}

#[derive(Debug, Clone)]
struct Path {
    parent: u32,
    step: Step,
    /// Index of the message that the value is, or is in; -1 for values in none.
    message: i32,
    /// The caller's string, if the value is a string.
    text: Option<Arc<str>>,
    /// Whether the value is a text or a number that says something.
    is_content: bool,
}

/// All paths of a caller's values.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    paths: Vec<Path>,
}

/// Whether a member of a message is a free text, if it is a text: one that says whatever its author likes.
pub(crate) fn is_free_key(key: &str) -> bool {
    key == "content" || REASONING_KEYS.contains(&key)
}

/// Paths of a short conversation.
const CAPACITY: usize = 32;

impl Default for Paths {
    fn default() -> Self {
        Self { paths: Vec::with_capacity(CAPACITY) }
    }
}

impl Paths {
    fn add(&mut self, parent: u32, step: Step, message: i32) -> u32 {
        self.paths.push(Path { parent, step, message, text: None, is_content: false });
        (self.paths.len() - 1) as u32
    }

    pub(super) fn argument(&mut self, name: &str) -> u32 {
        self.add(u32::MAX, Step::Argument(name.into()), -1)
    }

    /// The path of a list's item; those of `messages` are messages.
    pub(super) fn item(&mut self, list: u32, at: usize, is_message: bool) -> u32 {
        let message = if is_message { at as i32 } else { self.message(list) };
        self.add(list, Step::Item(at), message)
    }

    pub(super) fn key(&mut self, dict: u32, key: Arc<str>) -> u32 {
        self.add(dict, Step::Key(key), self.message(dict))
    }

    /// Keeps the string that a path leads to; a key's is not kept, because it has its dict's path.
    pub(super) fn keep(&mut self, path: u32, text: Arc<str>, is_content: bool) {
        if let Some(path) = self.paths.get_mut(path as usize) {
            path.is_content = is_content && !text.trim().is_empty();
            path.text = Some(text);
        }
    }

    /// Notes that a number is at a path.
    pub(super) fn set_content(&mut self, path: u32) {
        if let Some(path) = self.paths.get_mut(path as usize) {
            path.is_content = true;
        }
    }

    /// Each path: the number of the value around it, the key or nothing for an item, and whether it is a text or a
    /// number that says something. Values come after those around them.
    pub(crate) fn all(&self) -> impl DoubleEndedIterator<Item = (u32, Option<&str>, bool)> {
        self.paths.iter().map(|path| {
            let key = match &path.step {
                Step::Argument(key) | Step::Key(key) => Some(&**key),
                Step::Item(_) => None,
            };
            (path.parent, key, path.is_content)
        })
    }

    /// The caller's strings, to be changed.
    pub(super) fn strings_mut(&mut self) -> impl Iterator<Item = &mut Arc<str>> {
        self.paths.iter_mut().filter_map(|path| path.text.as_mut())
    }

    /// The paths alone, without the caller's strings.
    pub(crate) fn without_strings(mut self) -> Self {
        for path in &mut self.paths {
            path.text = None;
        }
        self
    }

    /// The caller's string at a path.
    pub(crate) fn string(&self, path: u32) -> Option<&str> {
        self.paths.get(path as usize)?.text.as_deref()
    }

    /// The key of a message that leads to a value: `content` for `messages[1].content`.
    pub(crate) fn key_of_message(&self, path: u32) -> Option<&str> {
        let Path { parent, step: Step::Key(key), message: 0.., .. } =
            self.paths.get(path as usize)?
        else {
            return None;
        };
        let message = self.paths.get(*parent as usize)?;
        let list = self.paths.get(message.parent as usize)?;
        (matches!(message.step, Step::Item(_)) && list.parent == u32::MAX).then_some(key)
    }

    /// Whether a free text of a message is at a path: its content, the text of a part of it, or reasoning.
    pub(crate) fn is_free(&self, path: u32) -> bool {
        let at = |path: u32| self.paths.get(path as usize);
        let Some(text) = at(path).filter(|it| it.text.is_some()) else { return false };
        if self.key_of_message(path).is_some_and(is_free_key) {
            return true;
        }
        let Step::Key(key) = &text.step else { return false };
        let part = at(text.parent).filter(|part| matches!(part.step, Step::Item(_)));
        let content = part.and_then(|part| self.key_of_message(part.parent));
        **key == *"text" && content == Some("content")
    }

    pub(crate) fn len(&self) -> usize {
        self.paths.len()
    }

    /// Index of the message that the value of a path is in; -1 for values in none.
    pub(crate) fn message(&self, path: u32) -> i32 {
        self.paths.get(path as usize).map_or(-1, |path| path.message)
    }

    /// The name of the argument that a path is, if it is no part of one.
    pub(crate) fn argument_name(&self, path: u32) -> Option<&str> {
        match self.paths.get(path as usize) {
            Some(Path { step: Step::Argument(name), .. }) => Some(name),
            _ => None,
        }
    }

    /// The path of the second argument; the number of paths, if there is one argument.
    pub(crate) fn second_argument(&self) -> u32 {
        let mut rest = self.paths.iter().enumerate().skip(1);
        let second = rest.find(|(_, path)| matches!(path.step, Step::Argument(_)));
        second.map_or(self.paths.len(), |(at, _)| at) as u32
    }

    /// The path as text.
    pub(crate) fn text(&self, path: u32) -> String {
        let mut steps = Vec::new();
        let mut at = path;
        while let Some(path) = self.paths.get(at as usize) {
            steps.push(&path.step);
            at = path.parent;
        }
        let mut text = String::new();
        for step in steps.into_iter().rev() {
            match step {
                Step::Argument(name) => text.push_str(name),
                Step::Item(at) => {
                    let _ = write!(text, "[{at}]");
                }
                Step::Key(key) => {
                    let _ = write!(text, ".{key}");
                }
            }
        }
        text
    }
}

//! What goes wrong in a template, and where in its source.

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The source is no template.
    Syntax(String),
    /// The source uses a part of jinja2 that is not implemented.
    Unsupported(String),
    /// An expression has no value: jinja2 raises an error too.
    Value(String),
    /// A bound of size, depth or work is passed.
    Limit(String),
    /// The template calls `raise_exception`.
    Raised(String),
}

impl Problem {
    pub(crate) fn syntax(problem: impl Into<String>) -> Self {
        Self::Syntax(problem.into())
    }

    pub(crate) fn value(problem: impl Into<String>) -> Self {
        Self::Value(problem.into())
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Syntax(text)
            | Self::Unsupported(text)
            | Self::Value(text)
            | Self::Limit(text)
            | Self::Raised(text) => text,
        }
    }
}

/// A problem at a byte of the source. It is boxed, because most results have none and are copied often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault(Box<(usize, Problem)>);

impl Fault {
    pub(crate) fn new(at: usize, problem: Problem) -> Self {
        Self(Box::new((at, problem)))
    }

    pub(crate) fn at(&self) -> usize {
        self.0.0
    }

    pub(crate) fn problem(&self) -> &Problem {
        &self.0.1
    }
}

//! The syntax tree of a template.

use std::sync::Arc;

use super::text::Text;

/// Byte offset in the template's source.
pub(super) type Position = u32;

/// A variable: its number among the template's names.
pub(super) type Symbol = u32;

#[derive(Debug)]
pub(super) struct Expr {
    pub(super) at: Position,
    /// Levels of expressions, this one included.
    pub(super) height: u16,
    pub(super) kind: ExprKind,
}

impl Expr {
    pub(super) fn new(at: Position, kind: ExprKind) -> Self {
        Self { at, height: kind.inner_height().saturating_add(1), kind }
    }
}

#[derive(Debug)]
pub(super) enum ExprKind {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(Text),
    Name(Symbol),
    List(Vec<Expr>),
    Tuple(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    /// `a.b`
    Attribute(Box<Expr>, Arc<str>),
    /// `a[b]`
    Item(Box<Expr>, Box<Expr>),
    /// `a[start:stop:step]`
    Slice(Box<Expr>, [Option<Box<Expr>>; 3]),
    Call(Box<Expr>, Arguments),
    /// The filter's input; none in a `{% filter %}` or `{% set %}` block.
    Filter(Option<Box<Expr>>, Arc<str>, Arguments),
    Test(Box<Expr>, Arc<str>, Arguments),
    Not(Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    If(Box<Expr>, Box<Expr>, Option<Box<Expr>>),
    Compare(Box<Expr>, Vec<(Comparison, Expr)>),
    Negative(Box<Expr>),
    Positive(Box<Expr>),
    Arithmetic(Box<Expr>, Operator, Box<Expr>),
    /// `a ~ b ~ c`
    Concat(Vec<Expr>),
}

impl ExprKind {
    /// Levels of the expressions within.
    fn inner_height(&self) -> u16 {
        let most = |exprs: &[Expr]| exprs.iter().map(|expr| expr.height).max().unwrap_or(0);
        match self {
            Self::None
            | Self::Bool(_)
            | Self::Int(_)
            | Self::Float(_)
            | Self::Str(_)
            | Self::Name(_) => 0,
            Self::List(items) | Self::Tuple(items) | Self::Concat(items) => most(items),
            Self::Dict(members) => {
                let heights = members.iter().map(|(key, value)| key.height.max(value.height));
                heights.max().unwrap_or(0)
            }
            Self::Attribute(inner, _)
            | Self::Not(inner)
            | Self::Negative(inner)
            | Self::Positive(inner) => inner.height,
            Self::Item(one, other)
            | Self::And(one, other)
            | Self::Or(one, other)
            | Self::Arithmetic(one, _, other) => one.height.max(other.height),
            Self::Slice(object, bounds) => {
                let bounds = bounds.iter().flatten().map(|bound| bound.height);
                bounds.fold(object.height, u16::max)
            }
            Self::Call(called, arguments) => called.height.max(arguments.height()),
            Self::Filter(input, _, arguments) => {
                input.as_ref().map_or(0, |input| input.height).max(arguments.height())
            }
            Self::Test(input, _, arguments) => input.height.max(arguments.height()),
            Self::If(condition, value, otherwise) => {
                let otherwise = otherwise.as_ref().map_or(0, |otherwise| otherwise.height);
                condition.height.max(value.height).max(otherwise)
            }
            Self::Compare(first, others) => {
                others.iter().map(|(_, other)| other.height).fold(first.height, u16::max)
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Modulo,
    Power,
}

impl Operator {
    pub(super) fn sign(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::FloorDivide => "//",
            Self::Modulo => "%",
            Self::Power => "**",
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Arguments {
    pub(super) positional: Vec<Expr>,
    pub(super) named: Vec<(Text, Expr)>,
    /// `*list`
    pub(super) list: Option<Box<Expr>>,
    /// `**dict`
    pub(super) dict: Option<Box<Expr>>,
}

impl Arguments {
    /// Levels of the expressions within.
    fn height(&self) -> u16 {
        let positional = self.positional.iter().map(|value| value.height);
        let named = self.named.iter().map(|(_, value)| value.height);
        let unpacked = self.list.iter().chain(&self.dict).map(|value| value.height);
        positional.chain(named).chain(unpacked).max().unwrap_or(0)
    }

    /// Whether all arguments are positional.
    pub(super) fn is_plain(&self) -> bool {
        self.named.is_empty() && self.list.is_none() && self.dict.is_none()
    }
}

#[derive(Debug)]
pub(super) struct Statement {
    pub(super) at: Position,
    pub(super) kind: StatementKind,
}

pub(super) type Body = Vec<Statement>;

#[derive(Debug)]
pub(super) enum StatementKind {
    Text(Text),
    Print(Expr),
    If(Vec<(Expr, Body)>, Body),
    For(Arc<For>),
    Set(Target, Expr),
    /// `{% set x | filter %}…{% endset %}`
    SetBlock(Target, Option<Expr>, Body),
    Macro(Symbol, Arc<MacroBody>),
    /// `{% call(args) f() %}…{% endcall %}`
    Call(Expr, Arc<MacroBody>),
    Filter(Expr, Body),
    With(Vec<(Target, Expr)>, Body),
    /// `{% generation %}…{% endgeneration %}`
    Generation(Body),
    /// `{% block name %}…{% endblock %}`
    Block(Body),
    Break,
    Continue,
}

#[derive(Debug)]
pub(super) struct For {
    pub(super) target: Target,
    pub(super) list: Expr,
    pub(super) condition: Option<Expr>,
    pub(super) body: Body,
    pub(super) otherwise: Body,
    pub(super) is_recursive: bool,
    /// Whether the body mentions `loop`.
    pub(super) has_loop: bool,
}

#[derive(Debug)]
pub(super) enum Target {
    Name(Symbol),
    /// `ns.attribute`
    Attribute(Symbol, Text),
    Tuple(Vec<Target>),
}

#[derive(Debug)]
pub(super) struct MacroBody {
    pub(super) name: Text,
    /// Parameters with their defaults.
    pub(super) parameters: Vec<(Symbol, Option<Expr>)>,
    pub(super) body: Body,
    /// Whether the body uses `varargs`, `kwargs` and `caller`.
    pub(super) uses: [bool; 3],
}

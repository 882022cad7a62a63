//! Tokens into the syntax tree, by the grammar of jinja2.

use std::sync::Arc;

use hashbrown::HashMap;

use super::ast::{
    Arguments, Body, Comparison, Expr, ExprKind, For, MacroBody, Operator, Statement,
    StatementKind, Symbol, Target,
};
use super::error::{Fault, Problem};
use super::lexer::{Token, tokens};
use super::text::Text;
use super::{filters, tests};

/// Deepest nesting of expressions and statements.
const MAX_DEPTH: usize = 100;

/// Most levels of an expression, those of chains such as `a + b + c` among them.
const MAX_HEIGHT: u16 = 600;

/// Most tokens of a template: published ones have up to some ten thousand.
const MAX_TOKENS: usize = 500_000;

/// Parses a template: its statements, and the names of its variables.
pub(super) fn parse(source: &str) -> Result<Parsed, Fault> {
    let tokens = tokens(source)?;
    if tokens.len() > MAX_TOKENS {
        let problem = format!("has {} tokens, expected at most {MAX_TOKENS}", tokens.len());
        return Err(Fault::new(0, Problem::Limit(problem)));
    }
    let mut parser = Parser {
        tokens,
        next: 0,
        names: Vec::new(),
        symbols: HashMap::new(),
        depth: 0,
        loops: 0,
        loop_mentions: 0,
        conditions: 0,
        uses: Vec::new(),
    };
    let body = parser.body(&[])?;
    Ok(Parsed { body, names: parser.names })
}

/// A parsed template.
pub(super) struct Parsed {
    pub(super) body: Body,
    pub(super) names: Vec<Arc<str>>,
}

struct Parser {
    tokens: Vec<(Token, u32)>,
    next: usize,
    names: Vec<Arc<str>>,
    symbols: HashMap<Arc<str>, Symbol>,
    depth: usize,
    /// Loops around the statement, up to the next macro.
    loops: usize,
    /// How often the name `loop` was met.
    loop_mentions: usize,
    /// `{% if %}` blocks around the statement: filters and tests that nobody knows fail there when they run.
    conditions: usize,
    /// Per macro around the expression whether it uses `varargs`, `kwargs`, `caller`.
    uses: Vec<[bool; 3]>,
}

type Outcome<T> = Result<T, Fault>;

impl Parser {
    fn token(&self) -> &Token {
        &self.tokens[self.next].0
    }

    fn at(&self) -> u32 {
        self.tokens[self.next].1
    }

    fn advance(&mut self) -> Token {
        let token = self.tokens[self.next].0.clone();
        if self.next + 1 < self.tokens.len() {
            self.next += 1;
        }
        token
    }

    fn fault<T>(&self, problem: impl Into<String>) -> Outcome<T> {
        Err(Fault::new(self.at() as usize, Problem::syntax(problem)))
    }

    /// The token at hand, for an error.
    fn found(&self) -> String {
        match self.token() {
            Token::Text(_) => "text".into(),
            Token::BlockBegin => "`{%`".into(),
            Token::BlockEnd => "`%}`".into(),
            Token::PrintBegin => "`{{`".into(),
            Token::PrintEnd => "`}}`".into(),
            Token::Name(name) => format!("`{name}`"),
            Token::Int(_) | Token::Float(_) => "a number".into(),
            Token::Str(_) => "a string".into(),
            Token::Sign(sign) => format!("`{sign}`"),
            Token::End => "the end of the template".into(),
        }
    }

    fn is(&self, sign: &str) -> bool {
        matches!(self.token(), Token::Sign(found) if *found == sign)
    }

    fn is_name(&self, name: &str) -> bool {
        matches!(self.token(), Token::Name(found) if found == name)
    }

    fn skip(&mut self, sign: &str) -> bool {
        let is = self.is(sign);
        if is {
            self.advance();
        }
        is
    }

    fn skip_name(&mut self, name: &str) -> bool {
        let is = self.is_name(name);
        if is {
            self.advance();
        }
        is
    }

    fn expect(&mut self, sign: &str) -> Outcome<()> {
        if self.skip(sign) {
            Ok(())
        } else {
            self.fault(format!("found {}, expected `{sign}`", self.found()))
        }
    }

    fn expect_name(&mut self, name: &str) -> Outcome<()> {
        if self.skip_name(name) {
            Ok(())
        } else {
            self.fault(format!("found {}, expected `{name}`", self.found()))
        }
    }

    fn any_name(&mut self) -> Outcome<String> {
        match self.token() {
            Token::Name(name) => {
                let name = name.clone();
                self.advance();
                Ok(name)
            }
            _ => self.fault(format!("found {}, expected a name", self.found())),
        }
    }

    fn block_end(&mut self) -> Outcome<()> {
        // As in Python, a colon may stand before the end.
        self.skip(":");
        if *self.token() == Token::BlockEnd {
            self.advance();
            return Ok(());
        }
        self.fault(format!("found {}, expected `%}}`", self.found()))
    }

    fn symbol(&mut self, name: &str) -> Symbol {
        self.loop_mentions += usize::from(name == "loop");
        if let Some(known) = self.symbols.get(name) {
            return *known;
        }
        let (at, name) = (self.names.len() as Symbol, Arc::<str>::from(name));
        self.names.push(name.clone());
        self.symbols.insert(name, at);
        at
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        if self.depth >= MAX_DEPTH {
            let problem = Problem::Limit(format!("nests deeper than {MAX_DEPTH}"));
            return Err(Fault::new(self.at() as usize, problem));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// A link of a chain: the chain so far is within the expression.
    fn link(at: u32, kind: ExprKind) -> Outcome<Expr> {
        let expr = Expr::new(at, kind);
        if expr.height > MAX_HEIGHT {
            let problem = Problem::Limit(format!("nests deeper than {MAX_HEIGHT}"));
            return Err(Fault::new(at as usize, problem));
        }
        Ok(expr)
    }

    /// Statements up to a block of one of these names, whose `{%` is passed and whose name is not.
    fn body(&mut self, ends: &[&str]) -> Outcome<Body> {
        self.deeper(|parser| {
            let begin = parser.at();
            let mut body = Body::new();
            loop {
                let at = parser.at();
                let kind = match parser.token().clone() {
                    Token::Text(text) => {
                        parser.advance();
                        StatementKind::Text(Text::source(&text))
                    }
                    Token::PrintBegin => {
                        parser.advance();
                        let expr = parser.tuple(true, &[])?;
                        if *parser.token() != Token::PrintEnd {
                            return parser
                                .fault(format!("found {}, expected `}}}}`", parser.found()));
                        }
                        parser.advance();
                        StatementKind::Print(expr)
                    }
                    Token::BlockBegin => {
                        parser.advance();
                        if ends.iter().any(|end| parser.is_name(end)) {
                            return Ok(body);
                        }
                        parser.statement()?
                    }
                    Token::End if ends.is_empty() => return Ok(body),
                    Token::End => {
                        let problem =
                            format!("block is open, expected `{{% {} %}}`", ends[ends.len() - 1]);
                        return Err(Fault::new(begin as usize, Problem::syntax(problem)));
                    }
                    _ => {
                        return parser
                            .fault(format!("found {}, expected text or a block", parser.found()));
                    }
                };
                body.push(Statement { at, kind });
            }
        })
    }

    /// A body, the name of its end and what closes that.
    fn body_to(&mut self, end: &str) -> Outcome<Body> {
        self.block_end()?;
        let body = self.body(&[end])?;
        self.advance();
        self.block_end()?;
        Ok(body)
    }

    fn statement(&mut self) -> Outcome<StatementKind> {
        let at = self.at();
        let name = self.any_name()?;
        let kind = match name.as_str() {
            "if" => return self.if_statement(),
            "for" => return self.for_statement(),
            "set" => return self.set(),
            "macro" => return self.macro_statement(),
            "call" => return self.call(),
            "filter" => {
                let filter = self.filters(None, at)?;
                StatementKind::Filter(filter, self.body_to("endfilter")?)
            }
            "with" => return self.with(),
            "generation" => StatementKind::Generation(self.body_to("endgeneration")?),
            "block" => {
                self.any_name()?;
                while self.skip_name("scoped") || self.skip_name("required") {}
                self.block_end()?;
                let body = self.body(&["endblock"])?;
                self.advance();
                if matches!(self.token(), Token::Name(_)) {
                    self.advance();
                }
                self.block_end()?;
                StatementKind::Block(body)
            }
            "break" | "continue" => {
                if self.loops == 0 {
                    return Err(Fault::new(
                        at as usize,
                        Problem::syntax(format!("`{name}` is outside of a loop")),
                    ));
                }
                self.block_end()?;
                if name == "break" { StatementKind::Break } else { StatementKind::Continue }
            }
            "include" | "import" | "from" | "extends" | "autoescape" | "do" | "trans" | "print"
            | "debug" => {
                let problem = format!("`{{% {name} %}}` is not supported");
                return Err(Fault::new(at as usize, Problem::Unsupported(problem)));
            }
            _ => {
                let problem = format!("found the block `{name}`, which has no meaning here");
                return Err(Fault::new(at as usize, Problem::syntax(problem)));
            }
        };
        Ok(kind)
    }

    fn if_statement(&mut self) -> Outcome<StatementKind> {
        self.conditions += 1;
        let statement = self.branches();
        self.conditions -= 1;
        statement
    }

    fn branches(&mut self) -> Outcome<StatementKind> {
        let mut branches = Vec::new();
        loop {
            let condition = self.tuple(false, &[])?;
            self.block_end()?;
            let body = self.body(&["elif", "else", "endif"])?;
            branches.push((condition, body));
            if self.skip_name("elif") {
                continue;
            }
            let otherwise = if self.skip_name("else") { Some(()) } else { None };
            self.advance_end(otherwise.is_none())?;
            let otherwise = match otherwise {
                Some(()) => {
                    let body = self.body(&["endif"])?;
                    self.advance();
                    self.block_end()?;
                    body
                }
                None => Body::new(),
            };
            return Ok(StatementKind::If(branches, otherwise));
        }
    }

    /// Passes the name of the end, if it is the end, and `%}`.
    fn advance_end(&mut self, is_end: bool) -> Outcome<()> {
        if is_end {
            self.advance();
        }
        self.block_end()
    }

    fn for_statement(&mut self) -> Outcome<StatementKind> {
        let target = self.target(&["in"])?;
        self.expect_name("in")?;
        let list = self.tuple(false, &["recursive"])?;
        let condition = if self.skip_name("if") { Some(self.expression()?) } else { None };
        let is_recursive = self.skip_name("recursive");
        self.block_end()?;
        self.loops += 1;
        let mentions = self.loop_mentions;
        let body = self.body(&["else", "endfor"]);
        self.loops -= 1;
        let body = body?;
        let has_loop = self.loop_mentions > mentions;
        let otherwise = self.skip_name("else");
        self.advance_end(!otherwise)?;
        let otherwise = if otherwise {
            let body = self.body(&["endfor"])?;
            self.advance();
            self.block_end()?;
            body
        } else {
            Body::new()
        };
        Ok(StatementKind::For(Arc::new(For {
            target,
            list,
            condition,
            body,
            otherwise,
            is_recursive,
            has_loop,
        })))
    }

    fn set(&mut self) -> Outcome<StatementKind> {
        let target = self.target(&[])?;
        if self.skip("=") {
            let value = self.tuple(true, &[])?;
            self.block_end()?;
            return Ok(StatementKind::Set(target, value));
        }
        let at = self.at();
        let filter = if self.is("|") { Some(self.filters_after(None, at)?) } else { None };
        Ok(StatementKind::SetBlock(target, filter, self.body_to("endset")?))
    }

    /// One target, or several as a tuple; `ns.attribute` alone.
    fn target(&mut self, ends: &[&str]) -> Outcome<Target> {
        let mut targets = Vec::new();
        let mut is_tuple = false;
        loop {
            if self.is("(") {
                self.advance();
                let inner = self.deeper(|parser| parser.target(&[]))?;
                self.expect(")")?;
                targets.push(inner);
            } else {
                let at = self.at();
                let name = self.any_name()?;
                if matches!(name.as_str(), "true" | "false" | "none" | "True" | "False" | "None") {
                    let problem = format!("found `{name}`, expected a name to assign to");
                    return Err(Fault::new(at as usize, Problem::syntax(problem)));
                }
                let symbol = self.symbol(&name);
                if self.skip(".") {
                    let attribute = self.any_name()?;
                    targets.push(Target::Attribute(symbol, Text::source(&attribute)));
                } else {
                    targets.push(Target::Name(symbol));
                }
            }
            if !self.skip(",") {
                break;
            }
            is_tuple = true;
            let ends_here = self.is("=") || self.is(")") || *self.token() == Token::BlockEnd;
            if ends_here || ends.iter().any(|end| self.is_name(end)) {
                break;
            }
        }
        match targets.pop() {
            Some(target) if targets.is_empty() && !is_tuple => Ok(target),
            last => {
                targets.extend(last);
                Ok(Target::Tuple(targets))
            }
        }
    }

    fn parameters(&mut self) -> Outcome<Vec<(Symbol, Option<Expr>)>> {
        let mut parameters: Vec<(Symbol, Option<Expr>)> = Vec::new();
        let mut has_default = false;
        self.expect("(")?;
        while !self.is(")") {
            if !parameters.is_empty() {
                self.expect(",")?;
                if self.is(")") {
                    break;
                }
            }
            let name = self.any_name()?;
            let symbol = self.symbol(&name);
            let default = if self.skip("=") { Some(self.expression()?) } else { None };
            has_default |= default.is_some();
            if default.is_none() && has_default {
                return self
                    .fault(format!("parameter `{name}` has no default, after one that has"));
            }
            parameters.push((symbol, default));
        }
        self.expect(")")?;
        Ok(parameters)
    }

    fn macro_body(
        &mut self,
        name: &str,
        parameters: Vec<(Symbol, Option<Expr>)>,
        end: &str,
    ) -> Outcome<MacroBody> {
        let loops = std::mem::take(&mut self.loops);
        self.uses.push([false; 3]);
        let body = self.body_to(end);
        self.loops = loops;
        let uses = self.uses.pop().unwrap_or_default();
        // What a macro within uses, this one may have to give.
        if let Some(outer) = self.uses.last_mut() {
            for (outer, inner) in outer.iter_mut().zip(uses) {
                *outer |= inner;
            }
        }
        Ok(MacroBody { name: Text::source(name), parameters, body: body?, uses })
    }

    fn macro_statement(&mut self) -> Outcome<StatementKind> {
        let name = self.any_name()?;
        let symbol = self.symbol(&name);
        let parameters = self.parameters()?;
        let body = self.macro_body(&name, parameters, "endmacro")?;
        Ok(StatementKind::Macro(symbol, Arc::new(body)))
    }

    fn call(&mut self) -> Outcome<StatementKind> {
        let parameters = if self.is("(") { self.parameters()? } else { Vec::new() };
        let called = self.expression()?;
        if !matches!(called.kind, ExprKind::Call(..)) {
            return Err(Fault::new(
                called.at as usize,
                Problem::syntax("found no call, expected one"),
            ));
        }
        let body = self.macro_body("caller", parameters, "endcall")?;
        Ok(StatementKind::Call(called, Arc::new(body)))
    }

    fn with(&mut self) -> Outcome<StatementKind> {
        let mut values = Vec::new();
        while *self.token() != Token::BlockEnd {
            if !values.is_empty() {
                self.expect(",")?;
            }
            let target = self.target(&[])?;
            self.expect("=")?;
            values.push((target, self.expression()?));
        }
        Ok(StatementKind::With(values, self.body_to("endwith")?))
    }

    /// An expression, or a tuple of some without parentheses.
    fn tuple(&mut self, with_condition: bool, ends: &[&str]) -> Outcome<Expr> {
        let at = self.at();
        let mut items = Vec::new();
        let mut is_tuple = false;
        loop {
            let ends_here = match self.token() {
                Token::BlockEnd | Token::PrintEnd => true,
                Token::Sign(sign) => *sign == ")",
                Token::Name(name) => ends.contains(&name.as_str()),
                _ => false,
            };
            if ends_here && (is_tuple || !items.is_empty()) {
                break;
            }
            items.push(if with_condition { self.expression()? } else { self.or()? });
            if !self.skip(",") {
                break;
            }
            is_tuple = true;
        }
        match items.pop() {
            Some(item) if items.is_empty() && !is_tuple => Ok(item),
            last => {
                items.extend(last);
                Ok(Expr::new(at, ExprKind::Tuple(items)))
            }
        }
    }

    fn expression(&mut self) -> Outcome<Expr> {
        self.deeper(|parser| {
            let at = parser.at();
            let mut expr = parser.or()?;
            while parser.skip_name("if") {
                let condition = parser.or()?;
                let otherwise = if parser.skip_name("else") {
                    Some(Box::new(parser.expression()?))
                } else {
                    None
                };
                let kind = ExprKind::If(Box::new(condition), Box::new(expr), otherwise);
                expr = Self::link(at, kind)?;
            }
            Ok(expr)
        })
    }

    fn or(&mut self) -> Outcome<Expr> {
        let at = self.at();
        let mut left = self.and()?;
        while self.skip_name("or") {
            let right = self.and()?;
            left = Self::link(at, ExprKind::Or(Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    fn and(&mut self) -> Outcome<Expr> {
        let at = self.at();
        let mut left = self.not()?;
        while self.skip_name("and") {
            let right = self.not()?;
            left = Self::link(at, ExprKind::And(Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    fn not(&mut self) -> Outcome<Expr> {
        let at = self.at();
        if self.skip_name("not") {
            let expr = self.deeper(Self::not)?;
            return Ok(Expr::new(at, ExprKind::Not(Box::new(expr))));
        }
        self.compare()
    }

    fn compare(&mut self) -> Outcome<Expr> {
        let at = self.at();
        let first = self.sum()?;
        let mut others = Vec::new();
        loop {
            let comparison = match self.token() {
                Token::Sign("==") => Comparison::Equal,
                Token::Sign("!=") => Comparison::NotEqual,
                Token::Sign("<") => Comparison::Less,
                Token::Sign("<=") => Comparison::LessOrEqual,
                Token::Sign(">") => Comparison::Greater,
                Token::Sign(">=") => Comparison::GreaterOrEqual,
                Token::Name(name) if name == "in" => Comparison::In,
                Token::Name(name)
                    if name == "not"
                        && matches!(&self.tokens[self.next + 1].0, Token::Name(name) if name == "in") =>
                {
                    self.advance();
                    Comparison::NotIn
                }
                _ => break,
            };
            self.advance();
            others.push((comparison, self.sum()?));
        }
        if others.is_empty() {
            return Ok(first);
        }
        Ok(Expr::new(at, ExprKind::Compare(Box::new(first), others)))
    }

    fn operator(&self, known: &[Operator]) -> Option<Operator> {
        known.iter().copied().find(|operator| self.is(operator.sign()))
    }

    fn sum(&mut self) -> Outcome<Expr> {
        self.binary(&[Operator::Add, Operator::Subtract], Self::concat)
    }

    fn binary(
        &mut self,
        known: &[Operator],
        operand: fn(&mut Self) -> Outcome<Expr>,
    ) -> Outcome<Expr> {
        let at = self.at();
        let mut left = operand(self)?;
        while let Some(operator) = self.operator(known) {
            self.advance();
            let right = operand(self)?;
            let kind = ExprKind::Arithmetic(Box::new(left), operator, Box::new(right));
            left = Self::link(at, kind)?;
        }
        Ok(left)
    }

    fn concat(&mut self) -> Outcome<Expr> {
        let at = self.at();
        let first = self.product()?;
        if !self.is("~") {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.skip("~") {
            parts.push(self.product()?);
        }
        Ok(Expr::new(at, ExprKind::Concat(parts)))
    }

    fn product(&mut self) -> Outcome<Expr> {
        let known = [Operator::Multiply, Operator::FloorDivide, Operator::Divide, Operator::Modulo];
        self.binary(&known, Self::power)
    }

    fn power(&mut self) -> Outcome<Expr> {
        self.binary(&[Operator::Power], |parser| parser.unary(true))
    }

    fn unary(&mut self, with_filters: bool) -> Outcome<Expr> {
        let at = self.at();
        let expr = if self.skip("-") {
            let inner = self.deeper(|parser| parser.unary(false))?;
            Expr::new(at, ExprKind::Negative(Box::new(inner)))
        } else if self.skip("+") {
            let inner = self.deeper(|parser| parser.unary(false))?;
            Expr::new(at, ExprKind::Positive(Box::new(inner)))
        } else {
            self.primary()?
        };
        let expr = self.postfix(expr)?;
        if with_filters { self.filters_and_tests(expr) } else { Ok(expr) }
    }

    fn primary(&mut self) -> Outcome<Expr> {
        let at = self.at();
        let kind = match self.token().clone() {
            Token::Name(name) => {
                self.advance();
                match name.as_str() {
                    "true" | "True" => ExprKind::Bool(true),
                    "false" | "False" => ExprKind::Bool(false),
                    "none" | "None" => ExprKind::None,
                    _ => {
                        if let Some(uses) = self.uses.last_mut()
                            && let Some(used) = ["varargs", "kwargs", "caller"]
                                .iter()
                                .position(|word| *word == name)
                        {
                            uses[used] = true;
                        }
                        ExprKind::Name(self.symbol(&name))
                    }
                }
            }
            Token::Str(mut text) => {
                self.advance();
                while let Token::Str(more) = self.token() {
                    text.push_str(more);
                    self.advance();
                }
                ExprKind::Str(Text::source(&text))
            }
            Token::Int(value) => {
                self.advance();
                ExprKind::Int(value)
            }
            Token::Float(value) => {
                self.advance();
                ExprKind::Float(value)
            }
            Token::Sign("(") => {
                self.advance();
                let inner = self.deeper(|parser| {
                    if parser.is(")") {
                        return Ok(Expr::new(at, ExprKind::Tuple(Vec::new())));
                    }
                    parser.tuple(true, &[])
                })?;
                self.expect(")")?;
                return Ok(inner);
            }
            Token::Sign("[") => {
                self.advance();
                let items = self.items("]")?;
                ExprKind::List(items)
            }
            Token::Sign("{") => {
                self.advance();
                let mut members = Vec::new();
                while !self.is("}") {
                    if !members.is_empty() {
                        self.expect(",")?;
                        if self.is("}") {
                            break;
                        }
                    }
                    let key = self.expression()?;
                    self.expect(":")?;
                    let value = self.expression()?;
                    members.push((key, value));
                }
                self.expect("}")?;
                ExprKind::Dict(members)
            }
            _ => return self.fault(format!("found {}, expected an expression", self.found())),
        };
        Ok(Expr::new(at, kind))
    }

    fn items(&mut self, end: &str) -> Outcome<Vec<Expr>> {
        let mut items = Vec::new();
        while !self.is(end) {
            if !items.is_empty() {
                self.expect(",")?;
                if self.is(end) {
                    break;
                }
            }
            items.push(self.expression()?);
        }
        self.expect(end)?;
        Ok(items)
    }

    fn postfix(&mut self, mut expr: Expr) -> Outcome<Expr> {
        loop {
            let at = self.at();
            let kind = if self.skip(".") {
                match self.token().clone() {
                    Token::Name(name) => {
                        self.advance();
                        ExprKind::Attribute(Box::new(expr), name.into())
                    }
                    Token::Int(number) => {
                        self.advance();
                        let index = Expr::new(at, ExprKind::Int(number));
                        ExprKind::Item(Box::new(expr), Box::new(index))
                    }
                    _ => {
                        return self
                            .fault(format!("found {}, expected a name or number", self.found()));
                    }
                }
            } else if self.skip("[") {
                self.subscript(expr, at)?
            } else if self.is("(") {
                let arguments = self.arguments()?;
                ExprKind::Call(Box::new(expr), arguments)
            } else {
                return Ok(expr);
            };
            expr = Self::link(at, kind)?;
        }
    }

    fn subscript(&mut self, expr: Expr, at: u32) -> Outcome<ExprKind> {
        let mut bounds: [Option<Box<Expr>>; 3] = [None, None, None];
        let mut part = 0;
        let mut is_slice = false;
        let mut items = Vec::new();
        loop {
            if self.skip("]") {
                break;
            }
            if self.skip(":") {
                is_slice = true;
                part += 1;
                if part > 2 {
                    return self.fault("slice has more than three parts");
                }
            } else if self.skip(",") {
                if is_slice {
                    return self.fault("found `,` in a slice, expected `]`");
                }
            } else {
                let expr = self.expression()?;
                if !is_slice && !self.is(":") {
                    items.push(expr);
                    if !self.is("]") && !self.is(",") {
                        return self.fault(format!("found {}, expected `]`", self.found()));
                    }
                } else if bounds[part].is_some() || !items.is_empty() {
                    return self.fault("found an expression, expected `:` or `]`");
                } else {
                    bounds[part] = Some(Box::new(expr));
                }
            }
        }
        if is_slice {
            return Ok(ExprKind::Slice(Box::new(expr), bounds));
        }
        let index = match items.pop() {
            Some(index) if items.is_empty() => index,
            Some(index) => {
                items.push(index);
                Expr::new(at, ExprKind::Tuple(items))
            }
            None => return self.fault("subscript is empty, expected an expression"),
        };
        Ok(ExprKind::Item(Box::new(expr), Box::new(index)))
    }

    fn arguments(&mut self) -> Outcome<Arguments> {
        self.expect("(")?;
        let mut arguments = Arguments::default();
        let mut is_first = true;
        while !self.is(")") {
            if !is_first {
                self.expect(",")?;
                if self.is(")") {
                    break;
                }
            }
            is_first = false;
            if self.skip("**") {
                arguments.dict = Some(Box::new(self.expression()?));
            } else if self.skip("*") {
                arguments.list = Some(Box::new(self.expression()?));
            } else if let Token::Name(name) = self.token().clone()
                && matches!(self.tokens[self.next + 1].0, Token::Sign("="))
            {
                self.advance();
                self.advance();
                let value = self.expression()?;
                arguments.named.push((Text::source(&name), value));
            } else {
                if !arguments.named.is_empty() || arguments.dict.is_some() {
                    return self.fault("found a value after named ones, expected `name=`");
                }
                arguments.positional.push(self.expression()?);
            }
        }
        self.expect(")")?;
        Ok(arguments)
    }

    fn filters_and_tests(&mut self, mut expr: Expr) -> Outcome<Expr> {
        loop {
            let at = self.at();
            if self.is("|") {
                expr = self.filters_after(Some(expr), at)?;
            } else if self.skip_name("is") {
                expr = self.test(expr, at)?;
            } else if self.is("(") {
                let kind = ExprKind::Call(Box::new(expr), self.arguments()?);
                expr = Self::link(at, kind)?;
            } else {
                return Ok(expr);
            }
        }
    }

    /// Filters, each after `|`.
    fn filters_after(&mut self, mut input: Option<Expr>, at: u32) -> Outcome<Expr> {
        loop {
            self.expect("|")?;
            let filter = self.one_filter(input, at)?;
            if !self.is("|") {
                return Ok(filter);
            }
            input = Some(filter);
        }
    }

    /// A filter, and others each after `|`.
    fn filters(&mut self, input: Option<Expr>, at: u32) -> Outcome<Expr> {
        let filter = self.one_filter(input, at)?;
        if self.is("|") { self.filters_after(Some(filter), at) } else { Ok(filter) }
    }

    fn one_filter(&mut self, input: Option<Expr>, at: u32) -> Outcome<Expr> {
        let name_at = self.at();
        let mut name = self.any_name()?;
        while self.skip(".") {
            name = format!("{name}.{}", self.any_name()?);
        }
        if !filters::is_known(&name) && (self.conditions == 0 || filters::is_unsupported(&name)) {
            return Err(Fault::new(name_at as usize, filters::unknown(&name)));
        }
        let arguments = if self.is("(") { self.arguments()? } else { Arguments::default() };
        Self::link(at, ExprKind::Filter(input.map(Box::new), name.into(), arguments))
    }

    fn test(&mut self, expr: Expr, at: u32) -> Outcome<Expr> {
        let is_negated = self.skip_name("not");
        let name_at = self.at();
        let name = self.any_name()?;
        if !tests::is_known(&name) && self.conditions == 0 {
            return Err(Fault::new(name_at as usize, tests::unknown(&name)));
        }
        let mut arguments = Arguments::default();
        let takes_value = match self.token() {
            Token::Name(name) => !matches!(name.as_str(), "else" | "or" | "and" | "is"),
            Token::Str(_) | Token::Int(_) | Token::Float(_) => true,
            Token::Sign(sign) => matches!(*sign, "[" | "{"),
            _ => false,
        };
        if self.is("(") {
            arguments = self.arguments()?;
        } else if takes_value {
            let value = self.primary()?;
            arguments.positional.push(self.postfix(value)?);
        } else if self.is_name("is") {
            return self.fault("found `is` after a test, expected one test");
        }
        let mut expr = Self::link(at, ExprKind::Test(Box::new(expr), name.into(), arguments))?;
        if is_negated {
            expr = Expr::new(at, ExprKind::Not(Box::new(expr)));
        }
        Ok(expr)
    }
}

#[cfg(test)]
mod height_tests {
    use super::parse;

    /// The chains of the grammar: each is parsed by a loop, and dropped by recursion.
    const CHAINS: [(&str, &str, &str); 13] = [
        ("{{ a", ".a", " }}"),
        ("{{ a", "[0]", " }}"),
        ("{{ a", "[:1]", " }}"),
        ("{{ a", "()", " }}"),
        ("{{ a", "|d", " }}"),
        ("{{ a", "|d()()", " }}"),
        ("{{ a", " + a", " }}"),
        ("{{ a", " * a", " }}"),
        ("{{ a", " ** a", " }}"),
        ("{{ a", " and a", " }}"),
        ("{{ a", " or a", " }}"),
        ("{{ a", " if a", " }}"),
        ("{% filter d", "|d", " %}{% endfilter %}"),
    ];

    #[test]
    fn a_long_chain_is_refused_and_dropped() {
        for (start, link, end) in CHAINS {
            let source = |links: usize| format!("{start}{}{end}", link.repeat(links));
            assert!(parse(&source(250)).is_ok(), "{}", source(1));
            let fault = parse(&source(50_000)).err();
            let problem = fault.map(|fault| fault.problem().text().to_owned());
            assert_eq!(problem.as_deref(), Some("nests deeper than 600"), "{}", source(1));
        }
    }

    #[test]
    fn chains_within_chains_are_as_high_as_all_of_them() {
        let mut expr = String::from("a");
        for _ in 0..50 {
            expr = format!("({expr}{})", ".a".repeat(500));
        }
        assert!(parse(&format!("{{{{ {expr} }}}}")).is_err());
    }
}

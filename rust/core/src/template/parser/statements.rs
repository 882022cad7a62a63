//! Blocks of a template: what `{% … %}`, `{{ … }}` and the text between them mean.
//!
//! In: tokens, up to the block that ends the body. Out: a body of statements.

use std::sync::Arc;

use super::super::ast::{
    Body, Expr, ExprKind, For, MacroBody, Statement, StatementKind, Symbol, Target,
};
use super::super::error::{Fault, Problem};
use super::super::lexer::Token;
use super::super::text::Text;
use super::{Outcome, Parser};

impl Parser {
    /// Statements up to a block of one of these names, whose `{%` is passed and whose name is not.
    pub(super) fn body(&mut self, ends: &[&str]) -> Outcome<Body> {
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

    pub(super) fn statement(&mut self) -> Outcome<StatementKind> {
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
}

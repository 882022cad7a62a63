//! Expressions of a template, from the weakest operator to names and literals, with filters and tests.
//!
//! In: tokens at the beginning of an expression. Out: the expression; its height is bounded.

use super::super::ast::{Arguments, Comparison, Expr, ExprKind, Operator};
use super::super::error::Fault;
use super::super::lexer::Token;
use super::super::text::Text;
use super::super::{filters, tests};
use super::{Outcome, Parser};

impl Parser {
    /// An expression, or a tuple of some without parentheses.
    pub(super) fn tuple(&mut self, with_condition: bool, ends: &[&str]) -> Outcome<Expr> {
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

    pub(super) fn expression(&mut self) -> Outcome<Expr> {
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

    pub(super) fn or(&mut self) -> Outcome<Expr> {
        let at = self.at();
        let mut left = self.and()?;
        while self.skip_name("or") {
            let right = self.and()?;
            left = Self::link(at, ExprKind::Or(Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    pub(super) fn and(&mut self) -> Outcome<Expr> {
        let at = self.at();
        let mut left = self.not()?;
        while self.skip_name("and") {
            let right = self.not()?;
            left = Self::link(at, ExprKind::And(Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    pub(super) fn not(&mut self) -> Outcome<Expr> {
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
    pub(super) fn filters_after(&mut self, mut input: Option<Expr>, at: u32) -> Outcome<Expr> {
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
    pub(super) fn filters(&mut self, input: Option<Expr>, at: u32) -> Outcome<Expr> {
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

    pub(super) fn test(&mut self, expr: Expr, at: u32) -> Outcome<Expr> {
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

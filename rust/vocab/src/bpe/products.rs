//! The one merge of every token: see [`pairs`](super::pairs) for why there is one.
//!
//! In: the tokens of a vocabulary as first symbols, and its rule for the order of merges. Out: the
//! tables of merging. Cost: about one encoding for each token.

use std::mem;

use hashbrown::HashMap;

use super::heap_merge::NO_RANK;
use super::left_over::{Known, LeftOver, lanes};
use super::merger::Merger;
use super::pairs::{Code, MAX_SYMBOLS, Pairs, Symbol};
use crate::error::{Error, Result};
use crate::token::TokenId;

/// Limit of products. Real vocabularies have some hundred thousand; a hostile file could have many
/// more.
const MAX_MERGES: usize = 4 << 20;

/// Order in which tokens are made.
pub(super) enum Ranks {
    /// A rank for each token, independent of its parts.
    OfTokens(Vec<u32>),
    /// A rank for each pair of ids; other pairs do not merge.
    OfPairs(HashMap<(TokenId, TokenId), u32>),
}

impl Ranks {
    /// The position of each pair in a list; the last position of a repeated pair.
    pub(super) fn listed(pairs: impl ExactSizeIterator<Item = (TokenId, TokenId)>) -> Result<Self> {
        if pairs.len() > MAX_MERGES {
            let problem = format!("make over {MAX_MERGES} merges, more than is read");
            return Err(Error::new("pieces", problem));
        }
        Ok(Self::OfPairs(pairs.zip(0..).collect()))
    }
}

/// Tokens as the symbols that merging begins with.
#[derive(Default)]
pub(super) struct Spelled {
    symbols: Vec<Symbol>,
    ends: Vec<usize>,
    ids: Vec<TokenId>,
}

impl Spelled {
    /// Adds a token of two symbols or more.
    pub(super) fn push(&mut self, id: TokenId, symbols: impl Iterator<Item = Symbol>) {
        self.symbols.extend(symbols);
        self.ends.push(self.symbols.len());
        self.ids.push(id);
    }

    /// The places of all tokens, shorter tokens first.
    fn by_length(&self) -> Vec<usize> {
        let lengths = || (0..self.ids.len()).map(|at| self.get(at).len());
        // At first the number of tokens of each length, then the place of the next one.
        let mut next = vec![0; lengths().max().unwrap_or(0) + 1];
        for length in lengths() {
            next[length] += 1;
        }
        let mut shorter = 0;
        for count in &mut next {
            shorter += mem::replace(count, shorter);
        }
        let mut places = vec![0; self.ids.len()];
        for (at, length) in lengths().enumerate() {
            places[next[length]] = at;
            next[length] += 1;
        }
        places
    }

    fn get(&self, at: usize) -> &[Symbol] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.symbols[start..self.ends[at]]
    }
}

/// Finds the one merge of every token; returns which tokens have one.
///
/// `firsts` are the ids of the first symbols. All pairs of the first `side` of these are kept in a
/// dense table.
pub(super) fn merger_of(
    firsts: Vec<TokenId>,
    side: Symbol,
    tokens: &Spelled,
    ranks: &Ranks,
) -> Result<(Merger, Vec<bool>)> {
    let count = firsts.len() + tokens.ids.len();
    if count > MAX_SYMBOLS {
        let problem = format!("are over {MAX_SYMBOLS}, more than is read");
        return Err(Error::new("pieces", problem));
    }
    // The parts of a token are shorter, so their merges are known by then.
    let by_length = tokens.by_length();
    let first_product = firsts.len() as Symbol;
    let mut ids = firsts;
    ids.extend(by_length.iter().map(|&at| tokens.ids[at]));
    let mut made = Made {
        pairs: Pairs::with_capacity(tokens.ids.len()),
        parts: vec![(0, 0); ids.len()],
        ranks: vec![NO_RANK; ids.len()],
    };
    let (mut left_over, mut parts) = (LeftOver::default(), Vec::new());
    let mut product = first_product;
    for same in by_length.chunk_by(|&one, &other| tokens.get(one).len() == tokens.get(other).len())
    {
        let length = tokens.get(same[0]).len();
        for some in same.chunks(lanes(length)) {
            let known = Known { pairs: &made.pairs, ranks: &made.ranks };
            left_over.two(some.iter().map(|&at| tokens.get(at)), length, known, &mut parts);
            for (&at, parts) in some.iter().zip(&parts) {
                made.add(product, *parts, |left, right| match ranks {
                    Ranks::OfTokens(ranks) => ranks.get(at).copied(),
                    Ranks::OfPairs(ranks) => {
                        ranks.get(&(ids[left as usize], ids[right as usize])).copied()
                    }
                });
                product += 1;
            }
        }
    }
    let mut is_made = vec![false; tokens.ids.len()];
    for (&at, rank) in by_length.iter().zip(&made.ranks[first_product as usize..]) {
        is_made[at] = *rank != NO_RANK;
    }
    Ok((made.by_rank(&ids, first_product, side), is_made))
}

/// The merges that are known: of each product its parts and its rank, [`NO_RANK`] without a merge.
struct Made {
    pairs: Pairs,
    parts: Vec<(Symbol, Symbol)>,
    ranks: Vec<u32>,
}

impl Made {
    /// Adds the last merge of a product, if it has two parts and these a rank.
    fn add(
        &mut self,
        product: Symbol,
        parts: Option<(Symbol, Symbol)>,
        rank: impl Fn(Symbol, Symbol) -> Option<u32>,
    ) {
        let Some((left, right)) = parts else { return };
        if let Some(rank) = rank(left, right) {
            self.parts[product as usize] = (left, right);
            self.ranks[product as usize] = rank;
            // If the pair has a product already, two tokens have the same text, and the later one counts.
            self.pairs.insert(left, right, product);
        }
    }

    /// Numbers the products by rank.
    fn by_rank(self, ids: &[TokenId], first_product: Symbol, side: Symbol) -> Merger {
        let products = self.ranks.iter().zip(0..).filter(|(rank, _)| **rank != NO_RANK);
        let mut products: Vec<(u32, Symbol)> = products.map(|(rank, old)| (*rank, old)).collect();
        products.sort_by_key(|(rank, _)| *rank);
        let mut new: Vec<Symbol> = (0..ids.len() as Symbol).collect();
        let mut new_ids = ids[..first_product as usize].to_vec();
        for &(_, old) in &products {
            new[old as usize] = new_ids.len() as Symbol;
            new_ids.push(ids[old as usize]);
        }
        let mut pairs = Pairs::with_capacity(products.len());
        let mut ties = Vec::new();
        for group in products.chunk_by(|(one, _), (other, _)| one == other) {
            let is_tied = group.len() > 1;
            let code = |old: Symbol| new[old as usize] << 1 | Code::from(is_tied);
            for &(_, old) in group {
                let (left, right) = self.parts[old as usize];
                pairs.insert(new[left as usize], new[right as usize], code(old));
            }
            if let ([(_, first), .., (_, last)], true) = (group, is_tied) {
                ties.push((code(*first), code(*last)));
            }
        }
        Merger::new(pairs, side, new_ids, ties)
    }
}

//! The options in the parentheses of the attribute: `name = value`, separated by commas.

use proc_macro2::TokenStream;
use syn::parse::{ParseStream, Parser};
use syn::{Error, Ident, Lit, LitInt, LitStr, Result, Token};

/// An option of a task, and the field of `TaskOptions` that it sets.
const SECONDS: &[(&str, &str)] = &[
    ("timeout_secs", "timeout"),
    ("total_timeout_secs", "total_timeout"),
    ("schedule_to_start_secs", "schedule_to_start"),
    ("heartbeat_timeout_secs", "heartbeat_timeout"),
];
const WORKFLOW: &[&str] = &["kind", "version", "name", "cancel_grace"];
const TASK: &[&str] = &[
    "kind",
    "name",
    "queue",
    "max_retries",
    "timeout_secs",
    "total_timeout_secs",
    "schedule_to_start_secs",
    "heartbeat_timeout_secs",
    "retry_initial_ms",
    "retry_factor",
    "retry_cap_ms",
];

/// The attribute in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attribute {
    Workflow,
    Task,
    /// `#[task]` in an impl block with `#[tasks]`.
    Method,
}

impl Attribute {
    /// The attribute as written in code.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Workflow => "#[workflow]",
            Self::Task | Self::Method => "#[task]",
        }
    }

    /// The type of the function's first argument.
    pub(crate) fn context(self) -> &'static str {
        match self {
            Self::Workflow => "WorkflowContext",
            Self::Task | Self::Method => "TaskContext",
        }
    }

    fn known(self) -> &'static [&'static str] {
        match self {
            Self::Workflow => WORKFLOW,
            Self::Task | Self::Method => TASK,
        }
    }
}

/// The options of any of the attributes.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) kind: Option<LitStr>,
    pub(crate) name: Option<Ident>,
    pub(crate) version: Option<LitStr>,
    /// In milliseconds.
    pub(crate) cancel_grace: Option<u64>,
    pub(crate) queue: Option<LitStr>,
    pub(crate) max_retries: Option<u32>,
    /// Fields of `TaskOptions` with their values in seconds.
    pub(crate) seconds: Vec<(&'static str, u64)>,
    pub(crate) retry: Retry,
}

/// Delays between attempts. `None`: the default of the server.
#[derive(Default)]
pub(crate) struct Retry {
    pub(crate) initial_ms: Option<u64>,
    pub(crate) factor: Option<f64>,
    pub(crate) cap_ms: Option<u64>,
}

impl Retry {
    pub(crate) fn is_given(&self) -> bool {
        self.initial_ms.is_some() || self.factor.is_some() || self.cap_ms.is_some()
    }
}

impl Options {
    pub(crate) fn parse(attribute: Attribute, tokens: TokenStream) -> Result<Self> {
        let parse = |input: ParseStream<'_>| {
            let mut options = Self::default();
            let mut seen: Vec<Ident> = Vec::new();
            while !input.is_empty() {
                let option: Ident = input.parse()?;
                check_known(attribute, &option, &seen)?;
                input.parse::<Token![=]>()?;
                options.read(&option, input)?;
                seen.push(option);
                if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
            }
            Ok(options)
        };
        parse.parse2(tokens)
    }

    fn read(&mut self, option: &Ident, input: ParseStream<'_>) -> Result<()> {
        let option = option.to_string();
        match option.as_str() {
            "kind" => self.kind = Some(text(input)?),
            "version" => self.version = Some(text(input)?),
            "cancel_grace" => self.cancel_grace = Some(duration(input)?),
            "queue" => self.queue = Some(text(input)?),
            "name" => self.name = Some(input.parse()?),
            "max_retries" => self.max_retries = Some(number(input)?),
            "retry_initial_ms" => self.retry.initial_ms = Some(number(input)?),
            "retry_factor" => self.retry.factor = Some(factor(input)?),
            "retry_cap_ms" => self.retry.cap_ms = Some(number(input)?),
            seconds => {
                let known = SECONDS.iter().find(|(name, _)| *name == seconds);
                let (_, field) = known.expect("unknown options were refused before");
                self.seconds.push((field, number(input)?));
            }
        }
        Ok(())
    }
}

fn check_known(attribute: Attribute, option: &Ident, seen: &[Ident]) -> Result<()> {
    if !attribute.known().iter().any(|known| option == known) {
        let (text, known) = (attribute.text(), attribute.known().join(", "));
        return Err(Error::new(option.span(), format!("{text} has no option `{option}`; it has: {known}")));
    }
    if seen.contains(option) {
        return Err(Error::new(option.span(), format!("`{option}` is given twice: remove one")));
    }
    Ok(())
}

fn text(input: ParseStream<'_>) -> Result<LitStr> {
    let text: LitStr = input.parse()?;
    if text.value().trim().is_empty() {
        return Err(Error::new(text.span(), "this is empty: give it a value, or leave the option out"));
    }
    Ok(text)
}

/// Parses a number with a unit, into milliseconds.
fn duration(input: ParseStream<'_>) -> Result<u64> {
    let text: LitStr = input.parse()?;
    let value = text.value();
    let wrong = || Error::new(text.span(), "expected a number with s, m, h or d, such as \"10m\"");
    let units = [('s', 1), ('m', 60), ('h', 3_600), ('d', 86_400)];
    let ms = units.iter().find_map(|(unit, seconds)| {
        let count: u64 = value.strip_suffix(*unit)?.parse().ok()?;
        count.checked_mul(seconds * 1_000)
    });
    ms.ok_or_else(wrong)
}

/// Parses a number with or without a fraction.
fn factor(input: ParseStream<'_>) -> Result<f64> {
    let literal: Lit = input.parse()?;
    let factor = match &literal {
        Lit::Float(literal) => literal.base10_parse()?,
        Lit::Int(literal) => literal.base10_parse()?,
        _ => return Err(Error::new(literal.span(), "expected a number such as `2` or `1.5`")),
    };
    if (1.0..=100.0).contains(&factor) {
        return Ok(factor);
    }
    Err(Error::new(
        literal.span(),
        "this must be from 1 to 100: each delay is the previous one times this factor",
    ))
}

fn number<N>(input: ParseStream<'_>) -> Result<N>
where
    N: std::str::FromStr<Err: std::fmt::Display> + Default + PartialEq,
{
    let literal: LitInt = input.parse()?;
    let number: N = literal.base10_parse()?;
    if number == N::default() {
        return Err(Error::new(
            literal.span(),
            "this must be at least 1; leave the option out for its default",
        ));
    }
    Ok(number)
}

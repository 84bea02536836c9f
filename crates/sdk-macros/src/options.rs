//! What stands in the parentheses of the attribute: `name = value`, separated by commas.

use proc_macro2::TokenStream;
use syn::parse::{ParseStream, Parser};
use syn::{Error, Ident, LitInt, LitStr, Result, Token};

/// An option that a task has, and the field of `TaskOptions` that it fills.
const SECONDS: &[(&str, &str)] = &[
    ("timeout_secs", "timeout"),
    ("total_timeout_secs", "total_timeout"),
    ("schedule_to_start_secs", "schedule_to_start"),
    ("heartbeat_timeout_secs", "heartbeat_timeout"),
];
const WORKFLOW: &[&str] = &["kind", "version", "name"];
const TASK: &[&str] = &[
    "kind",
    "name",
    "queue",
    "max_retries",
    "timeout_secs",
    "total_timeout_secs",
    "schedule_to_start_secs",
    "heartbeat_timeout_secs",
];

/// Which attribute it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attribute {
    Workflow,
    Task,
}

impl Attribute {
    /// As it is written.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Workflow => "#[workflow]",
            Self::Task => "#[task]",
        }
    }

    /// The type of the function's first argument.
    pub(crate) fn context(self) -> &'static str {
        match self {
            Self::Workflow => "WorkflowContext",
            Self::Task => "TaskContext",
        }
    }

    fn known(self) -> &'static [&'static str] {
        match self {
            Self::Workflow => WORKFLOW,
            Self::Task => TASK,
        }
    }
}

/// All options of either attribute.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) kind: Option<LitStr>,
    pub(crate) name: Option<Ident>,
    pub(crate) version: Option<LitStr>,
    pub(crate) queue: Option<LitStr>,
    pub(crate) max_retries: Option<u32>,
    /// Fields of `TaskOptions` and their seconds.
    pub(crate) seconds: Vec<(&'static str, u64)>,
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
            "queue" => self.queue = Some(text(input)?),
            "name" => self.name = Some(input.parse()?),
            "max_retries" => self.max_retries = Some(number(input)?),
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

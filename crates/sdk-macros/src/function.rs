//! The item below the attribute: an async function with a context and an input.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::{Error, FnArg, Result, ReturnType, Type};

use crate::options::Attribute;

/// The types of a function that can be a workflow or a task.
pub(crate) struct Signature<'a> {
    pub(crate) context: &'a Type,
    pub(crate) input: &'a Type,
    pub(crate) returns: &'a Type,
}

impl<'a> Signature<'a> {
    pub(crate) fn read(attribute: Attribute, signature: &'a syn::Signature) -> Result<Self> {
        let (text, context) = (attribute.text(), attribute.context());
        let refuse = |span: Span, message: String| Err(Error::new(span, message));
        if signature.asyncness.is_none() {
            return refuse(
                signature.fn_token.span,
                format!("{text} needs an async function: write `async fn`"),
            );
        }
        if !signature.generics.params.is_empty() {
            return refuse(
                signature.generics.span(),
                format!(
                    "{text} cannot be generic: one function is one kind, known to the server by its name"
                ),
            );
        }
        let receiver = match signature.inputs.first() {
            Some(FnArg::Receiver(receiver)) => Some(receiver),
            _ => None,
        };
        match (attribute, receiver) {
            (Attribute::Method, Some(receiver)) => {
                if receiver.colon_token.is_some()
                    || receiver.reference.is_none()
                    || receiver.mutability.is_some()
                {
                    return refuse(
                        receiver.span(),
                        format!("{text} takes `&self`: attempts run in parallel"),
                    );
                }
            }
            (Attribute::Method, None) => {
                let message =
                    "a task of #[tasks] takes `&self` first; without it, write #[task] on a free function";
                return refuse(signature.paren_token.span.join(), message.to_owned());
            }
            (Attribute::Task, Some(receiver)) => {
                let message =
                    "#[task] on a method needs #[tasks] on its impl block; or move it out and remove `self`";
                return refuse(receiver.span(), message.to_owned());
            }
            (Attribute::Workflow, Some(receiver)) => {
                return refuse(
                    receiver.span(),
                    format!("{text} needs a free function: move it out of the impl block and remove `self`"),
                );
            }
            (Attribute::Task | Attribute::Workflow, None) => {}
        }
        let arguments: Vec<&Type> = signature.inputs.iter().filter_map(argument_type).collect();
        let &[context_type, input] = arguments.as_slice() else {
            return refuse(
                signature.paren_token.span.join(),
                format!(
                    "{text} takes two arguments, `ctx: {context}` and its input, not {}; without an input, take `_: ()`",
                    arguments.len()
                ),
            );
        };
        for by_value in [context_type, input] {
            if let Type::Reference(reference) = by_value {
                return refuse(
                    reference.span(),
                    format!("{text} takes its arguments by value: remove the `&`"),
                );
            }
        }
        let ReturnType::Type(_, returns) = &signature.output else {
            return refuse(
                signature.ident.span(),
                format!(
                    "{text} returns a result: write `-> flovyn_sdk::Result<Output>`, with `()` for no output"
                ),
            );
        };
        Ok(Self { context: context_type, input, returns })
    }
}

fn argument_type(argument: &FnArg) -> Option<&Type> {
    match argument {
        FnArg::Typed(argument) => Some(&argument.ty),
        FnArg::Receiver(_) => None,
    }
}

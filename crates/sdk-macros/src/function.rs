//! What stands below the attribute: an async function of a context and an input.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::{Error, FnArg, ItemFn, Result, ReturnType, Type};

use crate::options::Attribute;

/// The types of a function that can be a workflow or a task.
pub(crate) struct Signature<'a> {
    pub(crate) context: &'a Type,
    pub(crate) input: &'a Type,
    pub(crate) returns: &'a Type,
}

impl<'a> Signature<'a> {
    pub(crate) fn read(attribute: Attribute, function: &'a ItemFn) -> Result<Self> {
        let signature = &function.sig;
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
        if let Some(FnArg::Receiver(receiver)) = signature.inputs.first() {
            return refuse(
                receiver.span(),
                format!("{text} needs a free function: move it out of the impl block and remove `self`"),
            );
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

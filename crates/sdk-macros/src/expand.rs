//! Generates a definition from an attribute and a function.
//!
//! The function is kept: it can be called like any other, and its attributes and compile errors keep their positions.
//! Next to it, a unit struct is generated, which is the definition and calls the function.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Error, Ident, ItemFn, Result, Type};

use crate::function::Signature;
use crate::options::{Attribute, Options, Retry};

pub(crate) fn expand_workflow(options: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let options = Options::parse(Attribute::Workflow, options)?;
    let version = options.version.as_ref().map(|version| {
        quote! { const VERSION: ::core::option::Option<&'static str> = ::core::option::Option::Some(#version); }
    });
    let grace = options.cancel_grace.map(|ms| {
        quote! {
            const CANCEL_GRACE: ::core::option::Option<::core::time::Duration> =
                ::core::option::Option::Some(::core::time::Duration::from_millis(#ms));
        }
    });
    let body = (version.is_some() || grace.is_some()).then(|| quote! { #version #grace });
    expand(Attribute::Workflow, &options, item, body)
}

pub(crate) fn expand_task(options: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let options = Options::parse(Attribute::Task, options)?;
    let body = task_options(&options);
    expand(Attribute::Task, &options, item, body)
}

pub(crate) fn task_options(options: &Options) -> Option<TokenStream> {
    let mut fields = Vec::new();
    if let Some(queue) = &options.queue {
        fields.push(quote! { queue: ::core::option::Option::Some(::std::string::String::from(#queue)), });
    }
    if let Some(count) = options.max_retries {
        fields.push(quote! { max_retries: ::core::option::Option::Some(#count), });
    }
    for (field, seconds) in &options.seconds {
        let field = format_ident!("{field}");
        let duration = quote! { ::core::time::Duration::from_secs(#seconds) };
        fields.push(quote! { #field: ::core::option::Option::Some(#duration), });
    }
    if options.retry.is_given() {
        fields.push(retry_policy(&options.retry));
    }
    (!fields.is_empty()).then(|| {
        quote! {
            fn options() -> ::flovyn_sdk::TaskOptions {
                ::flovyn_sdk::TaskOptions { #(#fields)* ..::core::default::Default::default() }
            }
        }
    })
}

fn retry_policy(retry: &Retry) -> TokenStream {
    let milliseconds = |ms: &u64| quote! { ::core::time::Duration::from_millis(#ms) };
    let initial = retry.initial_ms.as_ref().map(milliseconds).map(|initial| quote! { initial: #initial, });
    let factor = retry.factor.map(|factor| quote! { factor: #factor, });
    let cap = retry.cap_ms.as_ref().map(milliseconds).map(|cap| quote! { cap: #cap, });
    let all = initial.is_some() && factor.is_some() && cap.is_some();
    let rest = (!all).then(|| quote! { ..::core::default::Default::default() });
    quote! {
        retry: ::core::option::Option::Some(::flovyn_sdk::RetryPolicy { #initial #factor #cap #rest }),
    }
}

fn expand(
    attribute: Attribute,
    options: &Options,
    item: TokenStream,
    body: Option<TokenStream>,
) -> Result<TokenStream> {
    let function: ItemFn = syn::parse2(item).map_err(|error| {
        Error::new(error.span(), format!("{} belongs on an async function: {error}", attribute.text()))
    })?;
    let Signature { context, input, returns } = Signature::read(attribute, &function.sig)?;
    let called = &function.sig.ident;
    let name = options.name.clone().map_or_else(|| camel_case(called), Ok)?;
    check_free(&name, &[input, returns])?;
    let kind = options.kind.as_ref().map_or_else(|| kebab_case(called), syn::LitStr::value);

    let definition = match attribute {
        Attribute::Workflow => quote! { ::flovyn_sdk::WorkflowDefinition },
        Attribute::Task | Attribute::Method => quote! { ::flovyn_sdk::TaskDefinition },
    };
    let context_type = format_ident!("{}", attribute.context());
    // With the span of the user's argument, so that a wrong type is reported there.
    let given = Ident::new("context", context.span().resolved_at(Span::mixed_site()));
    // Hygienic, so that a function may be called `input`.
    let value = Ident::new("input", Span::mixed_site());
    let output = quote_spanned! { returns.span() => <#returns as ::flovyn_sdk::export::Outcome>::Output };

    let visibility = &function.vis;
    let has_name = |attribute: &&syn::Attribute, names: &[&str]| {
        names.iter().any(|name| attribute.path().is_ident(name))
    };
    let on_struct = function.attrs.iter().filter(|attribute| has_name(attribute, &["doc", "cfg"]));
    let on_impl = function.attrs.iter().filter(|attribute| has_name(attribute, &["cfg"]));
    Ok(quote! {
        #(#on_struct)*
        #[derive(
            ::core::fmt::Debug, ::core::clone::Clone, ::core::marker::Copy, ::core::default::Default,
        )]
        #visibility struct #name;

        #(#on_impl)*
        impl #definition for #name {
            type Input = #input;
            type Output = #output;
            const KIND: &'static str = #kind;
            #body

            fn run(
                &self,
                #given: ::flovyn_sdk::#context_type,
                #value: Self::Input,
            ) -> impl ::core::future::Future<Output = ::flovyn_sdk::Result<Self::Output>> + ::core::marker::Send {
                #called(#given, #value)
            }
        }

        #function
    })
}

/// Without this check, the compiler would only report that the name is defined twice.
pub(crate) fn check_free(name: &Ident, types: &[&Type]) -> Result<()> {
    for found in types {
        if mentions(found, name) {
            let message = format!(
                "the definition would be called `{name}`, like this type: choose another name with `name = ...`"
            );
            return Err(Error::new(found.span(), message));
        }
    }
    Ok(())
}

/// Whether a type is a bare `name`, or has it as a type argument.
fn mentions(found: &Type, name: &Ident) -> bool {
    let Type::Path(found) = found else { return false };
    if found.path.is_ident(name) {
        return true;
    }
    found.path.segments.iter().any(|segment| match &segment.arguments {
        syn::PathArguments::AngleBracketed(arguments) => arguments
            .args
            .iter()
            .any(|argument| matches!(argument, syn::GenericArgument::Type(found) if mentions(found, name))),
        _ => false,
    })
}

pub(crate) fn camel_case(function: &Ident) -> Result<Ident> {
    let mut name = String::new();
    for word in function.unraw().to_string().split('_') {
        let mut letters = word.chars();
        name.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        name.push_str(letters.as_str());
    }
    // Not every name can be converted: `_1` has no letters, and `self_` would become a keyword.
    let mut ident: Ident = syn::parse_str(&name).map_err(|_| {
        Error::new(
            function.span(),
            format!("cannot derive a name for the definition from `{function}`: add `name = ...`"),
        )
    })?;
    ident.set_span(function.span());
    Ok(ident)
}

pub(crate) fn kebab_case(function: &Ident) -> String {
    function.unraw().to_string().trim_matches('_').replace('_', "-")
}

#[cfg(test)]
mod tests;

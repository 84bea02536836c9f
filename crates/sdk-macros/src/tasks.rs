//! Generates the definitions for `#[tasks]` and an impl block: one for each method with `#[task]`.
//!
//! The methods are kept and can be called like any others. A definition holds the value that the methods are called
//! on.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, Ident, ImplItem, ImplItemFn, ItemImpl, Meta, Result, Type};

use crate::expand::{camel_case, check_free, kebab_case, task_options};
use crate::function::Signature;
use crate::options::{Attribute, Options};

pub(crate) fn expand_tasks(options: TokenStream, item: TokenStream) -> Result<TokenStream> {
    if !options.is_empty() {
        return Err(Error::new(
            options.span(),
            "#[tasks] has no options: options belong in the #[task] of a method",
        ));
    }
    let mut block: ItemImpl = syn::parse2(item)
        .map_err(|error| Error::new(error.span(), format!("#[tasks] belongs on an impl block: {error}")))?;
    if let Some((_, of, _)) = &block.trait_ {
        return Err(Error::new(
            of.span(),
            "#[tasks] belongs on an impl block of the type itself, not of a trait",
        ));
    }
    if !block.generics.params.is_empty() {
        let message = "#[tasks] cannot be generic: its tasks are kinds, known to the server by their names";
        return Err(Error::new(block.generics.span(), message));
    }
    let owner = (*block.self_ty).clone();
    let (mut definitions, mut names) = (Vec::new(), Vec::new());
    for item in &mut block.items {
        let ImplItem::Fn(method) = item else { continue };
        let Some(options) = take_attribute(method)? else { continue };
        let (name, definition) = definition(&owner, method, &options)?;
        definitions.push(definition);
        names.push(name);
    }
    if names.is_empty() {
        return Err(Error::new(owner.span(), "#[tasks] found no task: write #[task] on its methods"));
    }
    Ok(quote! {
        #block

        impl ::flovyn_sdk::TaskSet for #owner {
            fn tasks(self: ::std::sync::Arc<Self>) -> ::std::vec::Vec<::flovyn_sdk::definition::TaskEntry> {
                ::std::vec![
                    #(::flovyn_sdk::definition::TaskEntry::new(#names(::std::sync::Arc::clone(&self))),)*
                ]
            }
        }

        #(#definitions)*
    })
}

/// Removes the `#[task]` attribute of a method and returns its options. `None`: the method is not a task.
fn take_attribute(method: &mut ImplItemFn) -> Result<Option<Options>> {
    let is_task = |attribute: &syn::Attribute| {
        attribute.path().segments.last().is_some_and(|last| last.ident == "task")
    };
    let Some(index) = method.attrs.iter().position(is_task) else { return Ok(None) };
    let options = match method.attrs.remove(index).meta {
        Meta::List(list) => list.tokens,
        Meta::Path(_) => TokenStream::new(),
        other => return Err(Error::new(other.span(), "write #[task] or #[task(option = value, ...)]")),
    };
    Options::parse(Attribute::Method, options).map(Some)
}

fn definition(owner: &Type, method: &ImplItemFn, options: &Options) -> Result<(Ident, TokenStream)> {
    let Signature { context, input, returns } = Signature::read(Attribute::Method, &method.sig)?;
    let called = &method.sig.ident;
    let name = options.name.clone().map_or_else(|| camel_case(called), Ok)?;
    check_free(&name, &[owner, input, returns])?;
    let kind = options.kind.as_ref().map_or_else(|| kebab_case(called), syn::LitStr::value);
    let body = task_options(options);
    let text = name.to_string();
    let given = Ident::new("context", context.span().resolved_at(Span::mixed_site()));
    let value = Ident::new("input", Span::mixed_site());
    let output = quote_spanned! { returns.span() => <#returns as ::flovyn_sdk::export::Outcome>::Output };
    let visibility = &method.vis;
    let on_struct = method
        .attrs
        .iter()
        .filter(|attribute| ["doc", "cfg"].iter().any(|name| attribute.path().is_ident(name)));
    let definition = quote! {
        #(#on_struct)*
        #[derive(::core::clone::Clone)]
        #visibility struct #name(::std::sync::Arc<#owner>);

        impl ::core::fmt::Debug for #name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.write_str(#text)
            }
        }

        impl ::flovyn_sdk::TaskDefinition for #name {
            type Input = #input;
            type Output = #output;
            const KIND: &'static str = #kind;
            #body

            fn run(
                &self,
                #given: ::flovyn_sdk::TaskContext,
                #value: Self::Input,
            ) -> impl ::core::future::Future<Output = ::flovyn_sdk::Result<Self::Output>> + ::core::marker::Send {
                self.0.#called(#given, #value)
            }
        }
    };
    Ok((name, definition))
}

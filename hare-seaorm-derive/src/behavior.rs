//! `#[behavior]`: a user's `ActiveModelBehavior` becomes the `CaptureBehavior` that the derive's own implementation calls.

use darling::Error;
use darling::error::Accumulator;
use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::spanned::Spanned;
use syn::{ImplItem, ItemImpl, Path, Type, parse_quote_spanned};

use crate::attributes;
use crate::words;

const EXPECTED: &str = "`behavior` goes on an `impl ActiveModelBehavior for ActiveModel`";

/// What has hooks is the active model; these stand beside it in every entity.
const NOT_ACTIVE_MODELS: [&str; 4] = ["ActiveModelEx", "Entity", "Model", "ModelEx"];

/// Expands the attribute; on an error the item stays as it is.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Error::accumulator();
    let root = attributes::behavior_root(arguments, &mut errors);
    let expanded = errors
        .handle_in(|| parse(&item))
        .map(|parsed| moved(parsed, &root, &mut errors));
    let output = expanded.unwrap_or(item);
    let mistakes = errors.finish().err().map(Error::write_errors);
    quote!(#mistakes #output)
}

fn parse(item: &TokenStream) -> darling::Result<ItemImpl> {
    syn::parse2::<ItemImpl>(item.clone()).map_err(|error| {
        let is_impl = item.clone().into_iter().any(|token| token.to_string() == "impl");
        // A slip inside of an impl is the compiler's to explain.
        if is_impl {
            Error::from(error)
        } else {
            words::error(words::first(item), EXPECTED)
        }
    })
}

fn moved(mut item: ItemImpl, root: &Path, errors: &mut Accumulator) -> TokenStream {
    let Some((path, _)) = item.trait_.as_mut() else {
        errors.push(words::error(
            item.self_ty.span(),
            format!("{EXPECTED}, this one names no trait"),
        ));
        return quote!(#item);
    };
    match path.segments.last() {
        Some(last) if last.ident == "ActiveModelBehavior" => {}
        last => {
            let (word, span) = last.map_or((String::new(), path.span()), |last| {
                (words::plain(&last.ident), last.ident.span())
            });
            errors.push(words::error(span, format!("{EXPECTED}, not of `{word}`")));
            return quote!(#item);
        }
    }
    if let Some((word, span)) = not_an_active_model(&item.self_ty) {
        errors.push(words::error(span, format!("{EXPECTED}, not for {word}")));
        // The trait cannot be implemented there, which would be one error more.
        return TokenStream::new();
    }

    let original = path.clone();
    *path = parse_quote_spanned!(original.span()=> #root::__private::CaptureBehavior);
    // Below another `async_trait` there is nothing async left, above one it does the work.
    let has_async = item
        .items
        .iter()
        .any(|item| matches!(item, ImplItem::Fn(method) if method.sig.asyncness.is_some()));
    let is_done_below = item.attrs.iter().any(|attribute| {
        attribute
            .path()
            .segments
            .last()
            .is_some_and(|last| last.ident == "async_trait")
    });
    if has_async && !is_done_below {
        item.attrs
            .push(syn::parse_quote!(#[#root::__private::async_trait]));
    }
    quote! {
        // The user's import of the trait stays in use.
        const _: () = {
            #[allow(unused_imports)]
            use #original as _;
        };
        #item
    }
}

fn not_an_active_model(ty: &Type) -> Option<(String, Span)> {
    let Type::Path(path) = ty else {
        return Some(("this type".to_owned(), ty.span()));
    };
    let last = path.path.segments.last()?;
    let word = words::plain(&last.ident);
    NOT_ACTIVE_MODELS
        .contains(&word.as_str())
        .then(|| (format!("`{word}`"), last.ident.span()))
}

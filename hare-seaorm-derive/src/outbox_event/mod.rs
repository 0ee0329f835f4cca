//! `#[outbox_event]`: an outbox of a project's own, from a struct of its extra columns and relations.
//!
//! The struct becomes a SeaORM entity in the format of `#[sea_orm::model]`, the library's columns before the extra ones, so that
//! no project copies them by hand, and a new one of the library's reaches every outbox.

use darling::Error;
use darling::error::Accumulator;
use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Fields, FieldsNamed};

use self::arguments::Arguments;
use self::columns::Extra;
use self::output::Outbox;
use crate::capture::columns::{each_sea_orm_key, is_split};
use crate::capture::private;
use crate::words;

mod arguments;
mod columns;
mod output;

const EXPECTED: &str = "`outbox_event` goes on the `Model` struct of an outbox";
const MODEL_ABOVE: &str = "`outbox_event` writes `#[sea_orm::model]` itself: remove that line";

/// Expands the attribute. With mistakes, to their errors and to what could be made of the rest.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Error::accumulator();
    let arguments = Arguments::read(arguments, &mut errors);
    let output = errors
        .handle_in(|| parse(item))
        .and_then(|input| {
            errors
                .handle_in(|| extra_fields(&input))
                .map(|fields| (input, fields))
        })
        .map(|(input, fields)| check(input, fields, arguments, &mut errors).to_tokens());
    let mistakes = errors.finish().err().map(Error::write_errors);
    quote!(#mistakes #output)
}

fn parse(item: TokenStream) -> darling::Result<DeriveInput> {
    syn::parse2::<DeriveInput>(item.clone()).map_err(|error| {
        let is_struct = item
            .clone()
            .into_iter()
            .any(|token| token.to_string() == "struct");
        // A slip inside of a struct is the compiler's to explain.
        if is_struct {
            Error::from(error)
        } else {
            words::error(words::first(&item), EXPECTED)
        }
    })
}

fn extra_fields(input: &DeriveInput) -> darling::Result<FieldsNamed> {
    let data = match &input.data {
        Data::Struct(data) => data,
        Data::Enum(data) => {
            return Err(words::error(
                data.enum_token.span,
                format!("{EXPECTED}, not on an enum"),
            ));
        }
        Data::Union(data) => {
            return Err(words::error(
                data.union_token.span,
                format!("{EXPECTED}, not on a union"),
            ));
        }
    };
    if input.ident == "ModelEx" || is_split(&input.attrs) {
        return Err(words::error(Span::call_site(), MODEL_ABOVE));
    }
    if input.ident != "Model" {
        return Err(words::error(
            input.ident.span(),
            format!("{EXPECTED}, this one is called `{}`", input.ident),
        ));
    }
    if !input.generics.params.is_empty() {
        return Err(words::error(
            input.generics.span(),
            format!("{EXPECTED}, which has no parameters"),
        ));
    }
    match &data.fields {
        Fields::Named(fields) => Ok(fields.clone()),
        Fields::Unnamed(fields) => Err(words::error(
            fields.span(),
            format!("{EXPECTED}, whose fields have names"),
        )),
        Fields::Unit => Err(words::error(
            input.ident.span(),
            format!("{EXPECTED}; one without extra columns is `struct Model {{}}`"),
        )),
    }
}

fn check(input: DeriveInput, fields: FieldsNamed, arguments: Arguments, errors: &mut Accumulator) -> Outbox {
    let attributes = input
        .attrs
        .into_iter()
        .filter(|attribute| is_kept(attribute, errors))
        .collect();
    let mut extras = fields
        .named
        .into_iter()
        .filter_map(|field| Extra::read(field, errors))
        .collect::<Vec<_>>();
    let conflict = columns::conflict(arguments.conflict.as_ref(), &mut extras, errors);
    Outbox {
        vis: input.vis,
        attributes,
        extras,
        conflict,
        arguments,
    }
}

/// Whether an attribute of the struct goes on; those that the macro writes itself are refused and left out.
fn is_kept(attribute: &Attribute, errors: &mut Accumulator) -> bool {
    let path = attribute.path();
    if path.is_ident("derive") {
        refuse_derives(attribute, errors);
        return false;
    }
    if path.is_ident("hare") {
        errors.push(words::error(
            path.span(),
            "an outbox captures no writes, its events would make events: remove this line",
        ));
        return false;
    }
    let last = path.segments.last().map(|last| words::plain(&last.ident));
    if matches!(last.as_deref(), Some("model" | "compact_model")) {
        errors.push(words::error(
            path.span(),
            "`outbox_event` writes `#[sea_orm::model]` itself: remove this line",
        ));
        return false;
    }
    each_sea_orm_key(attribute, |key| {
        if key.is_ident("table_name") || key.is_ident("schema_name") {
            let word = key.get_ident().map(words::plain).unwrap_or_default();
            errors.push(words::error(
                key.span(),
                format!("`{word}` goes into `#[outbox_event({word} = \"...\")]`"),
            ));
        } else if key.is_ident("rename_all") {
            errors.push(words::error(
                key.span(),
                "the columns that every outbox has keep their names: rename extra ones with `column_name`",
            ));
        }
    });
    true
}

fn refuse_derives(attribute: &Attribute, errors: &mut Accumulator) {
    let mut others = false;
    let parsed = attribute.parse_nested_meta(|derive| {
        let last = derive.path.segments.last();
        if last.is_some_and(|last| last.ident == "ChangeCapture") {
            errors.push(words::error(
                derive.path.span(),
                "an outbox captures no writes, its events would make events: remove `ChangeCapture`",
            ));
        } else {
            others = true;
        }
        Ok(())
    });
    if others || parsed.is_err() {
        errors.push(words::error(
            attribute.path().span(),
            "`outbox_event` derives `Clone`, `Debug`, `PartialEq` and `DeriveEntityModel` itself: remove this line; others go into \
             `#[sea_orm(model_attrs(derive(...)))]`",
        ));
    }
}

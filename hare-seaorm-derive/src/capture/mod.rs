//! `#[derive(ChangeCapture)]`: checks a declaration against its entity and writes the impls.
//!
//! `#[sea_orm::model]` puts the derive on two structs: on `Model`, which it marks `#[sea_orm(model_ex)]` and strips of its relation
//! fields, and on `ModelEx`, which has all fields. There everything is written at `ModelEx`, so that relations can be named
//! in `fields` and `exclude`; in the other formats, which have no `ModelEx`, at `Model`.

use std::path::PathBuf;

use darling::Error;
use darling::error::Accumulator;
use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Fields, FieldsNamed, Ident, Path};

use self::columns::{Column, Described, Kind};
use self::label::Package;
use self::output::{App, Capture};
use crate::attributes::{Choice, StructAttributes};
use crate::words;

pub(crate) mod columns;
mod label;
mod output;
pub(crate) mod template;

const EXPECTED: &str = "`ChangeCapture` goes on the `Model` struct of an entity";

/// Expands the derive. With mistakes, to their errors and to what could be made of the rest.
pub(crate) fn expand(input: &DeriveInput) -> TokenStream {
    let mut errors = Error::accumulator();
    let output = match model_fields(input) {
        Ok(_) if input.ident == "Model" && columns::is_split(&input.attrs) => left_to_model_ex(&input.attrs),
        Ok(fields) => check(input, fields, &mut errors).to_tokens(),
        // Impls for something that is no entity would only add errors.
        Err(error) => {
            errors.push(error);
            TokenStream::new()
        }
    };
    let mistakes = errors.finish().err().map(Error::write_errors);
    quote!(#mistakes #output)
}

fn model_fields(input: &DeriveInput) -> darling::Result<&FieldsNamed> {
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
    if input.ident != "Model" && input.ident != "ModelEx" {
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
        Fields::Named(fields) => Ok(fields),
        Fields::Unnamed(fields) => Err(words::error(
            fields.span(),
            format!("{EXPECTED}, whose fields have names"),
        )),
        Fields::Unit => Err(words::error(
            input.ident.span(),
            format!("{EXPECTED}, which has fields"),
        )),
    }
}

/// The derive on `ModelEx` does the work; if it was kept from there, nothing would be captured, and nothing would say so.
fn left_to_model_ex(attributes: &[Attribute]) -> TokenStream {
    // Its mistakes are reported at `ModelEx`.
    let mut errors = Error::accumulator();
    let root = StructAttributes::read(attributes, &mut errors).root;
    let _ = errors.finish();
    quote! {
        const _: () = {
            const fn is_captured<E: #root::__private::CapturedEntity>() {}
            is_captured::<Entity>();
        };
    }
}

fn check<'a>(input: &'a DeriveInput, fields: &FieldsNamed, errors: &mut Accumulator) -> Capture<'a> {
    let attributes = StructAttributes::read(&input.attrs, errors);
    let described = columns::describe(&fields.named, errors);
    let held = held(&attributes.columns, &described, errors);
    let (app, manifest) = app(&attributes, errors);
    Capture {
        vis: &input.vis,
        has_relations: input.ident == "ModelEx",
        stored: stored(&described).cloned().collect(),
        held,
        app,
        manifest,
        attributes,
    }
}

/// The service, and the manifest that was asked for it. A profile may name it instead of the crate: then what the crate says is no
/// error yet.
fn app(attributes: &StructAttributes, errors: &mut Accumulator) -> (App, Option<PathBuf>) {
    if let Some(app) = &attributes.app {
        return (App::Named(app.clone()), None);
    }
    let package = Package::current();
    let app = match package.app() {
        Ok(app) => App::Default(app),
        Err(problem) if attributes.profile.is_some() => App::Missing(problem),
        Err(problem) => {
            errors.push(words::error(Span::call_site(), problem));
            App::Default(String::new())
        }
    };
    (app, package.manifest.map(|manifest| manifest.path))
}

fn stored(described: &[Described]) -> impl Iterator<Item = &Column> {
    described.iter().filter_map(|field| match &field.kind {
        Kind::Stored(column) => Some(column),
        _ => None,
    })
}

/// The columns that images hold, in their order.
fn held(choice: &Choice, described: &[Described], errors: &mut Accumulator) -> Vec<Column> {
    let default = stored(described).filter(|column| !column.sensitive).cloned();
    match choice {
        Choice::Default => default.collect(),
        Choice::Fields(words) => {
            let mut held = Vec::new();
            for column in words.iter().flat_map(|word| named(word, described, errors)) {
                if !held.contains(&column) {
                    held.push(column);
                }
            }
            held
        }
        Choice::Exclude(words) => {
            let excluded = words
                .iter()
                .flat_map(|word| named(word, described, errors))
                .collect::<Vec<_>>();
            default.filter(|column| !excluded.contains(column)).collect()
        }
    }
}

/// The columns that a word in `fields` or `exclude` stands for.
fn named(word: &Ident, described: &[Described], errors: &mut Accumulator) -> Vec<Column> {
    let name = words::plain(word);
    let refusal = match described
        .iter()
        .find(|field| field.name == name)
        .map(|field| &field.kind)
    {
        Some(Kind::Stored(column)) => return vec![column.clone()],
        Some(Kind::BelongsTo(variants)) => {
            let columns = variants
                .iter()
                .map(|variant| {
                    stored(described)
                        .find(|column| column.variant == *variant)
                        .cloned()
                })
                .collect::<Option<Vec<_>>>();
            match columns {
                Some(columns) => return columns,
                None => format!("the key columns of `{name}` are not fields of this entity"),
            }
        }
        Some(Kind::Undeclared) => {
            format!("`{name}` is a relation that does not say its key columns: name these instead")
        }
        Some(Kind::Reverse) => format!("`{name}` is a reverse relation: this table has no column for it"),
        Some(Kind::Ignored) => format!("`{name}` is not stored: it is marked `#[sea_orm(ignore)]`"),
        None => {
            let known = described
                .iter()
                .filter(|field| matches!(field.kind, Kind::Stored(_) | Kind::BelongsTo(_)))
                .map(|field| field.name.as_str())
                .collect::<Vec<_>>();
            words::unknown(&name, "a field of this entity", &known)
        }
    };
    errors.push(words::error(word.span(), refusal));
    Vec::new()
}

/// A path below `hare_seaorm::__private`.
pub(crate) fn private(root: &Path) -> TokenStream {
    quote!(#root::__private)
}

//! The columns of an outbox: the library's, the same in every outbox, and what may stand beside them.

use darling::error::Accumulator;
use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::spanned::Spanned;
use syn::{Field, Ident, Path, Type};

use super::arguments::Conflict;
use crate::attributes::Keys;
use crate::capture::columns::{SeaOrm, relation_type, variant};
use crate::words;

/// The column that holds a message's idempotency key.
const KEY: &str = "idempotency_key";

/// What every outbox has, in the order of the built-in one.
pub(super) const LIBRARY: [&str; 19] = [
    "sequence",
    "id",
    "topic",
    "payload",
    "headers",
    "ordering_key",
    KEY,
    "created_at",
    "attempts",
    "max_attempts",
    "last_error",
    "next_attempt_at",
    "lease_until",
    "leased_by",
    "lease_token",
    "claims",
    "releases_key",
    "published_at",
    "dead_lettered_at",
];

/// The library's columns as fields.
///
/// `String` and `Option` stand without a path because SeaORM knows them by that form. The unique id goes by a name of its own:
/// marked `unique` it would make SeaORM write an `Entity::find_by_id` that hides the one by primary key.
pub(super) fn library_fields(root: &Path, in_conflict: bool) -> TokenStream {
    let private = quote!(#root::__private);
    let json = quote!(#private::JsonText);
    let uuid = quote!(#private::Uuid);
    let time = quote!(#private::sea_orm::prelude::DateTimeUtc);
    let key_is_unique = in_conflict.then(unique_by_key);
    quote! {
        /// The order of delivery, given by the database.
        #[sea_orm(primary_key)]
        pub sequence: i64,
        /// What a receiver deduplicates by; a UUID of version 7.
        #[sea_orm(column_type = "Uuid", unique_key = "event_id")]
        pub id: #uuid,
        /// What the event is about, at most 255 characters.
        pub topic: String,
        /// The body: JSON text, kept to the letter.
        #[sea_orm(column_type = "Json")]
        pub payload: #json,
        /// A JSON object of metadata, `{}` when there is none.
        #[sea_orm(column_type = "Json")]
        pub headers: #json,
        /// Events of one key are delivered strictly in order; `None` is unordered.
        pub ordering_key: Option<String>,
        /// At most one event exists per key.
        #key_is_unique
        pub idempotency_key: Option<String>,
        /// When the event was written, by the database's clock.
        #[sea_orm(column_type = "TimestampWithTimeZone")]
        pub created_at: #time,
        /// Failed deliveries so far.
        pub attempts: i32,
        /// The most deliveries this event may fail; the relay's number if `None`.
        pub max_attempts: Option<i32>,
        /// The error of the last failed delivery.
        #[sea_orm(column_type = "Text", nullable)]
        pub last_error: Option<String>,
        /// When it is tried again; `None` for at once.
        #[sea_orm(column_type = "TimestampWithTimeZone")]
        pub next_attempt_at: Option<#time>,
        /// Until when the relay in `leased_by` holds it.
        #[sea_orm(column_type = "TimestampWithTimeZone")]
        pub lease_until: Option<#time>,
        /// The relay that is delivering it.
        pub leased_by: Option<String>,
        /// The claim that is delivering it; a new one each time.
        #[sea_orm(column_type = "Uuid")]
        pub lease_token: Option<#uuid>,
        /// Claims that ended without an outcome.
        pub claims: i32,
        /// A dead letter that no longer holds back its key.
        pub releases_key: bool,
        /// When it was delivered.
        #[sea_orm(column_type = "TimestampWithTimeZone")]
        pub published_at: Option<#time>,
        /// When it ran out of attempts.
        #[sea_orm(column_type = "TimestampWithTimeZone")]
        pub dead_lettered_at: Option<#time>,
    }
}

/// Marks a column of the unique key that idempotency keys fall under, for a schema that SeaORM makes of the entity.
fn unique_by_key() -> TokenStream {
    quote!(#[sea_orm(unique_key = "idempotency_key")])
}

/// A field of the outbox's own, as an extra column or a relation.
#[derive(Debug)]
pub(super) struct Extra {
    pub(super) field: Field,
    /// The field's name, without `r#`.
    name: String,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Column { variant: Ident, nullable: bool },
    Ignored,
    Relation,
}

impl Extra {
    /// `None` for a field that is refused as one of the library's.
    pub(super) fn read(mut field: Field, errors: &mut Accumulator) -> Option<Self> {
        let ident = field.ident.clone()?;
        let name = words::plain(&ident);
        for attribute in field
            .attrs
            .extract_if(.., |attribute| attribute.path().is_ident("hare"))
        {
            errors.push(words::error(
                attribute.path().span(),
                "an outbox captures no writes: `hare` says nothing on its fields",
            ));
        }
        let sea_orm = SeaOrm::read(&field);
        if let Some(span) = sea_orm.primary_key {
            errors.push(words::error(
                span,
                "an outbox has its primary key already, `sequence`: make this a plain column",
            ));
        }
        if let Some((span, column)) = clash(&ident, &name, &sea_orm) {
            errors.push(words::error(
                span,
                format!("every outbox has a column `{column}`: leave it out, or give this one another name"),
            ));
            return None;
        }
        let kind = if relation_type(&field.ty).is_some() {
            Kind::Relation
        } else if sea_orm.ignore {
            Kind::Ignored
        } else {
            Kind::Column {
                variant: sea_orm.enum_name.or_else(|| variant(&name, ident.span()))?,
                nullable: sea_orm.nullable || is_option(&field.ty),
            }
        };
        Some(Self { field, name, kind })
    }
}

/// The library's column that a field takes the place of, by its name, its column's or its variant's.
fn clash(ident: &Ident, name: &str, sea_orm: &SeaOrm) -> Option<(Span, &'static str)> {
    let column = |word: &str| LIBRARY.into_iter().find(|known| known.eq_ignore_ascii_case(word));
    if let Some(known) = column(name) {
        return Some((ident.span(), known));
    }
    let named = sea_orm.column_name.as_ref();
    if let Some((span, known)) = named.and_then(|name| Some((name.span(), column(&name.value())?))) {
        return Some((span, known));
    }
    let own = match &sea_orm.enum_name {
        Some(variant) => variant.clone(),
        None => variant(name, ident.span())?,
    };
    let known = LIBRARY
        .into_iter()
        .find(|known| variant(known, own.span()).is_some_and(|known| known == own));
    known.map(|known| (own.span(), known))
}

fn is_option(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Option"))
}

/// The variants of the columns that idempotency keys are unique by. Marks the extra columns among them.
pub(super) fn conflict(
    conflict: Option<&Conflict>,
    extras: &mut [Extra],
    errors: &mut Accumulator,
) -> Vec<Ident> {
    let key = |span| Ident::new("IdempotencyKey", span);
    let Some(conflict) = conflict else {
        return vec![key(Span::call_site())];
    };
    let mut seen = Keys::default();
    let mut variants = Vec::new();
    for word in &conflict.columns {
        seen.seen(&words::plain(word), word.span());
        if words::plain(word) == KEY {
            variants.push(key(word.span()));
        } else if let Some(variant) = errors.handle_in(|| own_column(word, extras)) {
            variants.push(variant);
        }
    }
    seen.report_duplicates(errors);
    if !conflict.columns.is_empty() && !conflict.columns.iter().any(|word| words::plain(word) == KEY) {
        errors.push(words::error(
            conflict.span,
            format!(
                "`conflict` says what idempotency keys are unique by: add `{KEY}`, or leave the list empty for an outbox without such \
                 keys"
            ),
        ));
    }
    variants
}

/// The extra column of that name.
fn own_column(word: &Ident, extras: &mut [Extra]) -> darling::Result<Ident> {
    let name = words::plain(word);
    let refusal = match extras.iter_mut().find(|extra| extra.name == name) {
        Some(Extra {
            field,
            kind: Kind::Column {
                variant,
                nullable: false,
            },
            ..
        }) => {
            // First, so that a word of the user's own comes last and stays.
            let unique = unique_by_key();
            field.attrs.insert(0, syn::parse_quote!(#unique));
            return Ok(Ident::new(&variant.to_string(), word.span()));
        }
        Some(Extra {
            kind: Kind::Column { nullable: true, .. },
            ..
        }) => {
            format!("`{name}` may be NULL, and no two NULLs are equal: beside them a key could be used twice")
        }
        Some(Extra {
            kind: Kind::Ignored, ..
        }) => {
            format!("`{name}` is not stored: it is marked `#[sea_orm(ignore)]`")
        }
        Some(Extra {
            kind: Kind::Relation, ..
        }) => {
            format!("`{name}` is a relation: name its key columns instead")
        }
        None if LIBRARY.contains(&name.as_str()) => {
            format!("`{name}` cannot be part of the key: only `{KEY}` and columns of this outbox's own can")
        }
        None => {
            let known = extras
                .iter()
                .filter(|extra| matches!(extra.kind, Kind::Column { .. }))
                .map(|extra| extra.name.as_str())
                .chain([KEY])
                .collect::<Vec<_>>();
            words::unknown(&name, "a column of this outbox", &known)
        }
    };
    Err(words::error(word.span(), refusal))
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    #[test]
    fn every_column_of_the_library_is_a_field_in_its_order() {
        let fields = library_fields(&parse_quote!(::hare_seaorm), true);
        let model: syn::ItemStruct = parse_quote!(struct Model { #fields });
        let names = model.fields.iter().filter_map(|field| field.ident.as_ref());
        assert_eq!(names.map(ToString::to_string).collect::<Vec<_>>(), LIBRARY);
    }

    #[test]
    fn a_field_clashes_by_its_name_its_columns_or_its_variants() {
        let clash_of = |field: Field| {
            let ident = field.ident.clone().expect("a name");
            let clash = clash(&ident, &words::plain(&ident), &SeaOrm::read(&field));
            clash.map(|(_, known)| known)
        };
        assert_eq!(clash_of(parse_quote!(pub topic: String)), Some("topic"));
        assert_eq!(clash_of(parse_quote!(pub r#topic: String)), Some("topic"));
        assert_eq!(
            clash_of(parse_quote!(pub lease__until: String)),
            Some("lease_until")
        );
        assert_eq!(
            clash_of(parse_quote!(#[sea_orm(column_name = "Topic")] pub theme: String)),
            Some("topic")
        );
        assert_eq!(
            clash_of(parse_quote!(#[sea_orm(enum_name = "Topic")] pub theme: String)),
            Some("topic")
        );
        assert_eq!(clash_of(parse_quote!(pub theme: String)), None);
    }
}

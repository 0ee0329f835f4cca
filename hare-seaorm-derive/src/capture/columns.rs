//! The entity's fields as SeaORM sees them: which are columns, and how `DeriveEntityModel` names their `Column` variants.

use darling::error::Accumulator;
use heck::ToUpperCamelCase;
use proc_macro2::{Span, TokenStream};
use syn::meta::ParseNestedMeta;
use syn::parse::Parse;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Expr, Field, Ident, LitStr, Path, Token, Type, token};

use crate::attributes::FieldAttributes;
use crate::words;

/// A stored column.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    /// The field.
    pub(crate) ident: Ident,
    /// The field's name, without `r#`.
    pub(crate) field: String,
    /// `Column::Variant`.
    pub(crate) variant: Ident,
    /// Held only when `fields` names it.
    pub(crate) sensitive: bool,
    /// The function that gives its values' JSON form.
    pub(crate) json_with: Option<Path>,
}

/// One column or two.
impl PartialEq for Column {
    fn eq(&self, other: &Self) -> bool {
        self.variant == other.variant
    }
}

/// What a field is to the table.
#[derive(Debug)]
pub(crate) enum Kind {
    Stored(Column),
    /// `#[sea_orm(ignore)]`.
    Ignored,
    /// `BelongsTo` or `HasOne` with the variants of its key columns in this table.
    BelongsTo(Vec<Ident>),
    /// A relation whose key columns, if this table has them, only a handwritten `Relation` knows.
    Undeclared,
    /// A relation by a key in another table.
    Reverse,
}

/// A field and what it is.
#[derive(Debug)]
pub(crate) struct Described {
    /// The field's name, without `r#`.
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// All fields, in order.
pub(crate) fn describe<'a>(
    fields: impl IntoIterator<Item = &'a Field>,
    errors: &mut Accumulator,
) -> Vec<Described> {
    fields
        .into_iter()
        .filter_map(|field| describe_field(field, errors))
        .collect()
}

fn describe_field(field: &Field, errors: &mut Accumulator) -> Option<Described> {
    let ident = field.ident.as_ref()?;
    let name = words::plain(ident);
    let hare = FieldAttributes::read(&field.attrs, errors);
    let sea_orm = SeaOrm::read(field);
    let in_primary_key = sea_orm.primary_key.is_some();

    let kind = if let Some(relation) = relation_type(&field.ty) {
        sea_orm.relation_kind(relation)
    } else if sea_orm.ignore {
        Kind::Ignored
    } else {
        let variant = match sea_orm.enum_name {
            Some(variant) => variant,
            None => variant(&name, ident.span()).or_else(|| {
                errors.push(words::error(
                    ident.span(),
                    format!("`{name}` makes no name of a `Column` variant"),
                ));
                None
            })?,
        };
        Kind::Stored(Column {
            field: name.clone(),
            variant,
            sensitive: hare.sensitive.is_some(),
            ident: ident.clone(),
            json_with: hare.json_with.as_ref().and_then(|(_, function)| function.clone()),
        })
    };

    if let Some(sensitive) = hare.sensitive {
        let in_key =
            "cannot keep it out of events: it is in the primary key, which every event tells as `pk`";
        check_place(
            "sensitive",
            sensitive,
            &name,
            &kind,
            in_primary_key,
            in_key,
            errors,
        );
    }
    if let Some((json_with, _)) = hare.json_with {
        let in_key =
            "cannot change how it is told: it is in the primary key, which receivers compare with `pk`";
        check_place(
            "json_with",
            json_with,
            &name,
            &kind,
            in_primary_key,
            in_key,
            errors,
        );
    }
    Some(Described { name, kind })
}

/// Refuses an attribute for columns on what is none, or on a column of the primary key.
fn check_place(
    word: &str,
    span: Span,
    field: &str,
    kind: &Kind,
    in_primary_key: bool,
    in_key: &str,
    errors: &mut Accumulator,
) {
    let is_no_column = |what| format!("`{word}` is for columns, and `{field}` {what}");
    let refusal = match kind {
        Kind::Stored(_) if in_primary_key => format!("on `{field}`, `{word}` {in_key}"),
        Kind::Stored(_) => return,
        Kind::Ignored => is_no_column("is not stored"),
        Kind::BelongsTo(_) | Kind::Undeclared => is_no_column("is a relation: mark its key columns instead"),
        Kind::Reverse => is_no_column("is a reverse relation, no event holds it"),
    };
    errors.push(words::error(span, refusal));
}

/// The name that SeaORM's macros make of a field.
pub(crate) fn variant(field: &str, span: Span) -> Option<Ident> {
    let camel = field.to_upper_camel_case();
    // The only keyword in upper camel case.
    let name = if camel == "Self" {
        "Self_".to_owned()
    } else {
        camel
    };
    let mut variant = syn::parse_str::<Ident>(&name).ok()?;
    variant.set_span(span);
    Some(variant)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RelationType {
    BelongsTo,
    HasOne,
    HasMany,
}

/// SeaORM tells relations from columns by the name of the type, too.
pub(crate) fn relation_type(ty: &Type) -> Option<RelationType> {
    let Type::Path(path) = ty else { return None };
    match path.path.segments.last()?.ident.to_string().as_str() {
        "BelongsTo" => Some(RelationType::BelongsTo),
        "HasOne" => Some(RelationType::HasOne),
        "HasMany" => Some(RelationType::HasMany),
        _ => None,
    }
}

/// What `#[sea_orm(...)]` on a field says of interest here. Its mistakes are SeaORM's to report.
#[derive(Default)]
pub(crate) struct SeaOrm {
    pub(crate) ignore: bool,
    /// Where it says `primary_key`.
    pub(crate) primary_key: Option<Span>,
    pub(crate) nullable: bool,
    pub(crate) column_name: Option<LitStr>,
    pub(crate) enum_name: Option<Ident>,
    from: Option<LitStr>,
    self_ref: bool,
    via: bool,
    has_one: bool,
}

impl SeaOrm {
    pub(crate) fn read(field: &Field) -> Self {
        let mut read = Self::default();
        for attribute in field
            .attrs
            .iter()
            .filter(|attribute| attribute.path().is_ident("sea_orm"))
        {
            let _ = attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("ignore") {
                    read.ignore = true;
                } else if meta.path.is_ident("primary_key") {
                    read.primary_key = Some(meta.path.span());
                    skip_value(&meta)?;
                } else if meta.path.is_ident("nullable") {
                    read.nullable = true;
                } else if meta.path.is_ident("column_name") {
                    read.column_name = Some(meta.value()?.parse()?);
                } else if meta.path.is_ident("enum_name") {
                    let name = meta.value()?.parse::<LitStr>()?;
                    let mut variant = syn::parse_str::<Ident>(&name.value())?;
                    variant.set_span(name.span());
                    read.enum_name = Some(variant);
                } else if meta.path.is_ident("from") {
                    read.from = Some(meta.value()?.parse()?);
                } else if meta.path.is_ident("self_ref") {
                    read.self_ref = true;
                } else if meta.path.is_ident("via") {
                    read.via = true;
                    skip_value(&meta)?;
                } else if meta.path.is_ident("has_one") {
                    read.has_one = true;
                } else {
                    skip_value(&meta)?;
                }
                Ok(())
            });
        }
        read
    }

    fn relation_kind(&self, relation: RelationType) -> Kind {
        match relation {
            RelationType::HasMany => Kind::Reverse,
            RelationType::HasOne if self.has_one || (self.self_ref && self.via) => Kind::Reverse,
            RelationType::HasOne | RelationType::BelongsTo => {
                match self.from.as_ref().and_then(key_columns) {
                    Some(columns) => Kind::BelongsTo(columns),
                    None => Kind::Undeclared,
                }
            }
        }
    }
}

/// The keys of a `#[sea_orm(...)]`. Its mistakes are SeaORM's to report.
pub(crate) fn each_sea_orm_key(attribute: &Attribute, mut see: impl FnMut(&Path)) {
    if attribute.path().is_ident("sea_orm") {
        let _ = attribute.parse_nested_meta(|meta| {
            see(&meta.path);
            skip_value(&meta)
        });
    }
}

/// Whether `#[sea_orm::model]` made this struct, so that there is a `ModelEx` beside the `Model`: SeaORM's mark, which its own derive
/// acts upon.
pub(crate) fn is_split(attributes: &[Attribute]) -> bool {
    let mut found = false;
    for attribute in attributes {
        each_sea_orm_key(attribute, |key| found |= key.is_ident("model_ex"));
    }
    found
}

fn skip_value(meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
    if meta.input.peek(Token![=]) {
        meta.value()?.parse::<Expr>()?;
    } else if meta.input.peek(token::Paren) {
        let content;
        syn::parenthesized!(content in meta.input);
        content.parse::<TokenStream>()?;
    }
    Ok(())
}

/// `from` of a relation: `book_id`, `Column::BookId` or `(shelf, place)`.
fn key_columns(from: &LitStr) -> Option<Vec<Ident>> {
    let paths = if from.value().starts_with('(') {
        let list = from.parse_with(|input: syn::parse::ParseStream<'_>| {
            let content;
            syn::parenthesized!(content in input);
            Punctuated::<Path, Token![,]>::parse_terminated_with(&content, Path::parse_mod_style)
        });
        list.ok()?.into_iter().collect()
    } else {
        vec![from.parse_with(Path::parse).ok()?]
    };
    let columns = paths
        .iter()
        .map(|path| {
            path.segments
                .last()
                .and_then(|column| variant(&words::plain(&column.ident), from.span()))
        })
        .collect::<Option<Vec<_>>>()?;
    (!columns.is_empty()).then_some(columns)
}

#[cfg(test)]
mod tests {
    use darling::Error;
    use syn::parse_quote;

    use super::*;

    fn described(item: syn::ItemStruct) -> Vec<Described> {
        let mut errors = Error::accumulator();
        let described = describe(&item.fields, &mut errors);
        errors.finish().expect("no mistakes");
        described
    }

    fn variant_of(field: &Described) -> String {
        match &field.kind {
            Kind::Stored(column) => column.variant.to_string(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn variants_are_named_as_sea_orm_names_them() {
        let fields = described(parse_quote! {
            struct Model {
                id: i32,
                r#type: String,
                due_at: String,
                self_: i32,
                _private: i32,
                line2_text: String,
                #[sea_orm(column_name = "s", enum_name = "State", indexed)]
                status: String,
                #[sea_orm(column_type = "Decimal(Some((10, 2)))", default_value = 0)]
                fee: Decimal,
            }
        });
        assert_eq!(
            fields.iter().map(|field| field.name.as_str()).collect::<Vec<_>>(),
            [
                "id",
                "type",
                "due_at",
                "self_",
                "_private",
                "line2_text",
                "status",
                "fee"
            ]
        );
        assert_eq!(
            fields.iter().map(variant_of).collect::<Vec<_>>(),
            [
                "Id",
                "Type",
                "DueAt",
                "Self_",
                "Private",
                "Line2Text",
                "State",
                "Fee"
            ]
        );
    }

    #[test]
    fn a_primary_key_is_not_sensitive() {
        let mistakes = |field: syn::Field| {
            let mut errors = Error::accumulator();
            describe([&field], &mut errors);
            errors.finish().err().map(|error| error.to_string())
        };
        let refused = mistakes(
            parse_quote!(#[hare(sensitive)] #[sea_orm(primary_key, auto_increment = false)] iban: String),
        );
        assert!(refused.is_some_and(|refusal| {
            refusal.contains("on `iban`, `sensitive` cannot keep it out of events: it is in the primary key")
        }));
        assert_eq!(
            mistakes(parse_quote!(#[sea_orm(unique)] #[hare(sensitive)] iban: String)),
            None
        );
    }

    #[test]
    fn relations_are_told_by_their_keys() {
        let fields = described(parse_quote! {
            struct ModelEx {
                #[sea_orm(belongs_to, from = "book_id", to = "id")]
                book: BelongsTo<super::book::Entity>,
                #[sea_orm(belongs_to, from = "(shelf, Column::Place)", to = "(a, b)")]
                spot: HasOne<super::spot::Entity>,
                #[sea_orm(self_ref, relation_enum = "Parent", from = "parent_id", to = "id")]
                parent: HasOne<Entity>,
                #[sea_orm(has_one)]
                fine: HasOne<super::fine::Entity>,
                #[sea_orm(has_many, via = "loan_tag")]
                tags: HasMany<super::tag::Entity>,
                member: BelongsTo<Option<super::member::Entity>>,
                #[sea_orm(ignore)]
                cached: i32,
            }
        });
        let keys = |field: &Described| match &field.kind {
            Kind::BelongsTo(columns) => columns
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(","),
            Kind::Stored(_) => "stored".to_owned(),
            other => format!("{other:?}"),
        };
        assert_eq!(
            fields.iter().map(keys).collect::<Vec<_>>(),
            [
                "BookId",
                "Shelf,Place",
                "ParentId",
                "Reverse",
                "Reverse",
                "Undeclared",
                "Ignored"
            ]
        );
    }
}

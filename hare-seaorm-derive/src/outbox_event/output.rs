//! A checked outbox as code.
//!
//! SeaORM's own expansion names its prelude without a path, so that is brought into scope, by a glob: the user's own names come
//! before it. The impls stand in a `const _`, under absolute paths.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, Ident, Visibility};

use super::arguments::Arguments;
use super::columns::{Extra, library_fields};
use super::private;

/// An outbox without mistakes, or with what could be made of it.
#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) vis: Visibility,
    /// Of the struct, without those that are refused.
    pub(super) attributes: Vec<Attribute>,
    pub(super) extras: Vec<Extra>,
    /// The variants of the columns that idempotency keys are unique by.
    pub(super) conflict: Vec<Ident>,
    pub(super) arguments: Arguments,
}

impl Outbox {
    pub(super) fn to_tokens(&self) -> TokenStream {
        let model = self.model();
        let behavior = self.behavior();
        let outbox_entity = self.outbox_entity();
        let outbox_event = self.outbox_event();
        quote! {
            #model
            const _: () = {
                #behavior
                #outbox_entity
                #outbox_event
            };
        }
    }

    fn model(&self) -> TokenStream {
        let private = private(&self.arguments.root);
        let sea_orm = quote!(#private::sea_orm);
        let Self { vis, attributes, .. } = self;
        let table_name = &self.arguments.table_name;
        let schema_name = self
            .arguments
            .schema_name
            .as_ref()
            .map(|name| quote!(, schema_name = #name));
        let library = library_fields(&self.arguments.root, !self.conflict.is_empty());
        let extras = self.extras.iter().map(|extra| &extra.field);
        quote! {
            #[allow(unused_imports)]
            use #sea_orm::entity::prelude::*;

            #[#sea_orm::model]
            #[derive(::core::clone::Clone, ::core::fmt::Debug, ::core::cmp::PartialEq, DeriveEntityModel)]
            #[sea_orm(table_name = #table_name #schema_name)]
            #(#attributes)*
            #vis struct Model {
                #library
                #(#extras,)*
            }
        }
    }

    fn behavior(&self) -> Option<TokenStream> {
        let private = private(&self.arguments.root);
        (!self.arguments.hooks).then(|| {
            quote! {
                #[automatically_derived]
                impl #private::sea_orm::ActiveModelBehavior for ActiveModel {}
            }
        })
    }

    fn outbox_entity(&self) -> TokenStream {
        let private = private(&self.arguments.root);
        let wakeup = quote!(::std::sync::Arc<dyn #private::OutboxWakeup>);
        let body = match &self.arguments.wakeup {
            None => quote!(::core::option::Option::None),
            // Once, so that every write signals the object that the relays listen to.
            Some(path) => {
                let make = quote_spanned!(path.span()=> let make: fn() -> #wakeup = #path;);
                quote! {
                    static WAKEUP: ::std::sync::OnceLock<#wakeup> = ::std::sync::OnceLock::new();
                    #make
                    ::core::option::Option::Some(::std::sync::Arc::clone(WAKEUP.get_or_init(make)))
                }
            }
        };
        let conflict = &self.conflict;
        quote! {
            #[automatically_derived]
            impl #private::OutboxEntity for Entity {
                fn wakeup() -> ::core::option::Option<#wakeup> {
                    #body
                }

                fn conflict_columns() -> ::std::vec::Vec<Self::Column> {
                    ::std::vec![#(Column::#conflict),*]
                }
            }
        }
    }

    fn outbox_event(&self) -> TokenStream {
        let private = private(&self.arguments.root);
        let time = quote!(#private::sea_orm::prelude::DateTimeUtc);
        let option = quote!(::core::option::Option);
        quote! {
            #[automatically_derived]
            impl #private::OutboxEvent for Model {
                fn sequence(&self) -> i64 {
                    self.sequence
                }
                fn id(&self) -> #private::Uuid {
                    self.id
                }
                fn topic(&self) -> &str {
                    &self.topic
                }
                fn payload(&self) -> &#private::JsonText {
                    &self.payload
                }
                fn headers(&self) -> &#private::JsonText {
                    &self.headers
                }
                fn ordering_key(&self) -> #option<&str> {
                    self.ordering_key.as_deref()
                }
                fn idempotency_key(&self) -> #option<&str> {
                    self.idempotency_key.as_deref()
                }
                fn created_at(&self) -> #time {
                    self.created_at
                }
                fn attempts(&self) -> i32 {
                    self.attempts
                }
                fn max_attempts(&self) -> #option<i32> {
                    self.max_attempts
                }
                fn next_attempt_at(&self) -> #option<#time> {
                    self.next_attempt_at
                }
                fn claims(&self) -> i32 {
                    self.claims
                }
                fn last_error(&self) -> #option<&str> {
                    self.last_error.as_deref()
                }
                fn published_at(&self) -> #option<#time> {
                    self.published_at
                }
                fn dead_lettered_at(&self) -> #option<#time> {
                    self.dead_lettered_at
                }
            }
        }
    }
}

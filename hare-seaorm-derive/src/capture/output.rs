//! A checked declaration as code.
//!
//! Everything stands in one `const _`, under absolute paths: it meets neither the user's names nor their lints.

use std::path::PathBuf;

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::Visibility;
use syn::spanned::Spanned;

use super::columns::Column;
use super::private;
use super::template::{Name, Piece, Purpose, Template, parse};
use crate::attributes::{Method, OnPool, Operations, OrderingKey, Payload, Strategy, StructAttributes};

const TOPIC: &str = "{app}.{model}.{operation}";
const ORDERING_KEY: &str = "{label}:{pk}";

/// A declaration without mistakes, or with the defaults in their place.
#[derive(Debug)]
pub(super) struct Capture<'a> {
    pub(super) vis: &'a Visibility,
    pub(super) stored: Vec<Column>,
    pub(super) held: Vec<Column>,
    pub(super) app: String,
    /// The Cargo.toml that was asked for `app`.
    pub(super) manifest: Option<PathBuf>,
    pub(super) attributes: StructAttributes,
}

impl Capture<'_> {
    pub(super) fn to_tokens(&self) -> TokenStream {
        let rebuild = self.rebuild_with_manifest();
        let not_an_outbox = self.not_an_outbox();
        let captured_entity = self.captured_entity();
        let active_model_behavior = self.active_model_behavior();
        let capture_behavior = self.capture_behavior();
        let methods = self.methods();
        quote! {
            const _: () = {
                #rebuild
                #not_an_outbox
                #captured_entity
                #active_model_behavior
                #capture_behavior
                #methods
            };
        }
    }

    /// Cargo does not rebuild for a change under `[package.metadata]`; a file that was included makes it.
    fn rebuild_with_manifest(&self) -> Option<TokenStream> {
        let path = self.manifest.as_ref()?.to_str()?;
        Some(quote!(
            const _: &[u8] = ::core::include_bytes!(#path);
        ))
    }

    /// An outbox's events would make events, without end if it is its own outbox.
    fn not_an_outbox(&self) -> TokenStream {
        let private = private(&self.attributes.root);
        quote! {
            const _: () = {
                use #private::NoOutbox as _;
                ::core::assert!(
                    !#private::Probe::<Entity>::IS_OUTBOX,
                    "an outbox captures no writes, its events would make events: remove `ChangeCapture`",
                );
            };
        }
    }

    fn captured_entity(&self) -> TokenStream {
        let private = private(&self.attributes.root);
        let root = &self.attributes.root;
        let outbox = match &self.attributes.outbox {
            Some(path) => quote!(#path),
            None => quote!(#root::outbox::Entity),
        };
        let app = &self.app;
        let name = match &self.attributes.name {
            Some(name) => quote!(::std::string::String::from(#name)),
            None => quote!(#private::name_of_module(::core::module_path!())),
        };
        let payload = match self.attributes.payload {
            Payload::Keys => quote!(Keys),
            Payload::After => quote!(After),
            Payload::BeforeAndAfter => quote!(BeforeAndAfter),
        };
        let Operations {
            insert,
            update,
            delete,
        } = self.attributes.operations;
        let stored = columns(&self.stored);
        let held = columns(&self.held);
        let json_with = self.json_with();
        let sensitive = columns(self.stored.iter().filter(|column| column.sensitive));
        let topic = match &self.attributes.topic {
            Some(template) => self.pieces(template),
            None => self.pieces(&parse(TOPIC, Purpose::Topic).unwrap_or_default()),
        };
        let ordering_key = match &self.attributes.ordering_key {
            OrderingKey::Unordered => None,
            OrderingKey::Template(template) => Some(self.pieces(template)),
            OrderingKey::Default => {
                Some(self.pieces(&parse(ORDERING_KEY, Purpose::OrderingKey).unwrap_or_default()))
            }
        };
        let ordering_key = match ordering_key {
            Some(pieces) => quote!(::core::option::Option::Some(#pieces)),
            None => quote!(::core::option::Option::None),
        };
        let on_pool = match self.attributes.on_pool {
            OnPool::Refuse => quote!(Refuse),
            OnPool::NonAtomic => quote!(NonAtomic),
        };
        let strategy = match self.attributes.strategy {
            Strategy::Auto => quote!(Auto),
            Strategy::Portable => quote!(Portable),
        };
        quote! {
            #[automatically_derived]
            impl #private::CapturedEntity for Entity {
                type Outbox = #outbox;

                fn declaration() -> &'static #private::Declaration<Self> {
                    static DECLARATION: ::std::sync::LazyLock<#private::Declaration<Entity>> =
                        ::std::sync::LazyLock::new(|| #private::Declaration {
                            app: #app,
                            name: #name,
                            payload: #private::Payload::#payload,
                            operations: #private::Operations { insert: #insert, update: #update, delete: #delete },
                            stored: #stored,
                            held: #held,
                            json_with: #json_with,
                            refusal: #private::sensitive_key::<Entity>(#sensitive),
                            topic: #topic,
                            ordering_key: #ordering_key,
                            on_pool: #private::OnPool::#on_pool,
                            strategy: #private::Strategy::#strategy,
                        });
                    &DECLARATION
                }
            }
        }
    }

    /// The functions that give columns their JSON form, by their fields' names.
    fn json_with(&self) -> TokenStream {
        let private = private(&self.attributes.root);
        let forms = self.stored.iter().filter_map(|column| {
            let (function, name) = (column.json_with.as_ref()?, &column.field);
            let mut field = column.ident.clone();
            field.set_span(function.span());
            // At the function's name: what is wrong with it is told there.
            let form = quote_spanned!(function.span()=> &#function(&model.#field));
            let form = quote_spanned!(function.span()=> #private::json_form(#name, #form));
            Some(quote!((#name, |model: &Model| #form)))
        });
        quote!(&[#(#forms),*])
    }

    fn pieces(&self, template: &Template) -> TokenStream {
        let private = private(&self.attributes.root);
        let pieces = template.iter().map(|piece| match piece {
            Piece::Text(text) => quote!(#private::Piece::Text(#text)),
            Piece::Name(Name::App) => quote!(#private::Piece::App),
            Piece::Name(Name::Model) => quote!(#private::Piece::Model),
            Piece::Name(Name::Table) => quote!(#private::Piece::Table),
            Piece::Name(Name::Operation) => quote!(#private::Piece::Operation),
            Piece::Name(Name::Label) => quote!(#private::Piece::Label),
            Piece::Name(Name::PrimaryKey) => quote!(#private::Piece::PrimaryKey),
        });
        quote!(&[#(#pieces),*])
    }

    fn active_model_behavior(&self) -> TokenStream {
        let private = private(&self.attributes.root);
        let sea_orm = quote!(#private::sea_orm);
        let result = quote!(::core::result::Result);
        quote! {
            #[#private::async_trait]
            #[automatically_derived]
            impl #sea_orm::ActiveModelBehavior for ActiveModel {
                fn new() -> Self {
                    <Self as #private::CaptureBehavior>::new()
                }

                async fn before_save<C>(self, db: &C, insert: bool) -> #result<Self, #sea_orm::DbErr>
                where
                    C: #sea_orm::ConnectionTrait,
                {
                    #private::hooks::before_save(self, db, insert).await
                }

                async fn after_save<C>(model: Model, db: &C, insert: bool) -> #result<Model, #sea_orm::DbErr>
                where
                    C: #sea_orm::ConnectionTrait,
                {
                    #private::hooks::after_save::<ActiveModel, C>(model, db, insert).await
                }

                async fn before_delete<C>(self, db: &C) -> #result<Self, #sea_orm::DbErr>
                where
                    C: #sea_orm::ConnectionTrait,
                {
                    #private::hooks::before_delete(self, db).await
                }

                async fn after_delete<C>(self, db: &C) -> #result<Self, #sea_orm::DbErr>
                where
                    C: #sea_orm::ConnectionTrait,
                {
                    #private::hooks::after_delete(self, db).await
                }
            }
        }
    }

    fn capture_behavior(&self) -> Option<TokenStream> {
        let private = private(&self.attributes.root);
        (!self.attributes.hooks).then(|| {
            quote! {
                #[automatically_derived]
                impl #private::CaptureBehavior for ActiveModel {}
            }
        })
    }

    /// Inherent methods with the names of SeaORM's trait methods: Rust prefers them at every call.
    fn methods(&self) -> TokenStream {
        let private = private(&self.attributes.root);
        let sea_orm = quote!(#private::sea_orm);
        let model = self.method(
            Method::ModelDelete,
            "delete",
            "Deletes the row and writes its event, both or neither.",
            &quote!(#sea_orm::DeleteResult),
            &quote!(<Self as #sea_orm::IntoActiveModel<ActiveModel>>::into_active_model(self)),
        );
        let this = quote!(self);
        let active_model = [
            self.method(
                Method::Insert,
                "insert",
                "Inserts the row and writes its event, both or neither.",
                &quote!(Model),
                &this,
            ),
            self.method(
                Method::Update,
                "update",
                "Updates the row and writes its event, both or neither.",
                &quote!(Model),
                &this,
            ),
            self.method(
                Method::Save,
                "save",
                "Inserts the row, or updates it if its key is set, and writes its event, both or neither.",
                &quote!(Self),
                &this,
            ),
            self.method(
                Method::Delete,
                "delete",
                "Deletes the row and writes its event, both or neither.",
                &quote!(#sea_orm::DeleteResult),
                &this,
            ),
            self.method(
                Method::UpdateWithoutReturning,
                "update_without_returning",
                "Updates the row without answering it and writes its event, both or neither.",
                &quote!(#sea_orm::UpdateResult),
                &this,
            ),
        ];
        let active_model = active_model.into_iter().flatten().collect::<TokenStream>();
        let active_model = (!active_model.is_empty())
            .then(|| quote!(#[allow(dead_code)] impl ActiveModel { #active_model }));
        let model = model.map(|method| quote!(#[allow(dead_code)] impl Model { #method }));
        quote!(#active_model #model)
    }

    fn method(
        &self,
        method: Method,
        name: &str,
        doc: &str,
        answer: &TokenStream,
        subject: &TokenStream,
    ) -> Option<TokenStream> {
        if self.attributes.no_shadow.contains(&method) {
            return None;
        }
        let private = private(&self.attributes.root);
        let sea_orm = quote!(#private::sea_orm);
        let vis = self.vis;
        let name = format_ident!("{name}");
        Some(quote! {
            #[doc = #doc]
            #vis fn #name<'a, C>(
                self,
                db: &'a C,
            ) -> #private::BoxFuture<'a, ::core::result::Result<#answer, #sea_orm::DbErr>>
            where
                C: #sea_orm::ConnectionTrait,
            {
                #private::write::#name(#subject, db)
            }
        })
    }
}

fn columns<'a>(columns: impl IntoIterator<Item = &'a Column>) -> TokenStream {
    let columns = columns
        .into_iter()
        .map(|Column { field, variant, .. }| quote!((#field, Column::#variant)));
    quote!(&[#(#columns),*])
}

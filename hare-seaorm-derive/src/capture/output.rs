//! A checked declaration as code.
//!
//! Everything stands in one `const _`, under absolute paths: it meets neither the user's names nor their lints.

use std::path::PathBuf;

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Ident, Path, Visibility};

use super::columns::Column;
use super::private;
use super::template::{Name, Piece, Purpose, Template, parse};
use crate::attributes::{
    Code, Envelope, Method, OnPool, Operations, OrderingKey, Payload, Strategy, StructAttributes, Topic,
};

const TOPIC: &str = "{app}.{model}.{operation}";
const ORDERING_KEY: &str = "{label}:{pk}";

/// A declaration without mistakes, or with the defaults in their place.
#[derive(Debug)]
pub(super) struct Capture<'a> {
    pub(super) vis: &'a Visibility,
    /// Whether it is `#[sea_orm::model]`'s, with a `ModelEx` and an `ActiveModelEx`.
    pub(super) has_relations: bool,
    pub(super) stored: Vec<Column>,
    pub(super) held: Vec<Column>,
    pub(super) app: App,
    /// The Cargo.toml that was asked for `app`.
    pub(super) manifest: Option<PathBuf>,
    pub(super) attributes: StructAttributes,
}

/// The first half of the label.
#[derive(Debug)]
pub(super) enum App {
    /// By the attribute.
    Named(String),
    /// By the crate, unless a profile names it.
    Default(String),
    /// By nobody, unless a profile names it; why.
    Missing(String),
}

impl Capture<'_> {
    pub(super) fn to_tokens(&self) -> TokenStream {
        let rebuild = self.rebuild_with_manifest();
        let not_an_outbox = self.not_an_outbox();
        let captured_entity = self.captured_entity();
        let active_model_behavior = self.active_model_behavior();
        let capture_behavior = self.capture_behavior();
        let methods = self.methods();
        let private = private(&self.attributes.root);
        quote! {
            const _: () = {
                #rebuild
                #not_an_outbox
                #captured_entity
                #private::inventory::submit! { #private::Registered::of::<Entity>() }
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
        let outbox = match (&self.attributes.outbox, &self.attributes.profile) {
            (Some(path), _) => quote!(#path),
            (None, Some(profile)) => quote!(<#profile as #private::CaptureProfile>::Outbox),
            (None, None) => quote!(#root::outbox::Entity),
        };
        let app = self.app();
        let name = match &self.attributes.name {
            Some(name) => quote!(::std::string::String::from(#name)),
            None => quote!(#private::name_of_module(::core::module_path!())),
        };
        let payload = self.said_or(self.attributes.payload.map(payload), "PAYLOAD", || {
            payload(Payload::After)
        });
        let operations = self.said_or(self.attributes.operations.map(operations), "OPERATIONS", || {
            quote!(Operations::ALL)
        });
        let stored = columns(&self.stored);
        let held = columns(&self.held);
        let json_with = self.json_with();
        let sensitive = columns(self.stored.iter().filter(|column| column.sensitive));
        let (topic, topic_with) = self.topic();
        let (ordering_key, ordering_key_with) = self.ordering_key();
        let envelope = self.said_or(self.attributes.envelope.map(envelope), "ENVELOPE", || {
            envelope(Envelope::Plain)
        });
        let on_pool = self.said_or(self.attributes.on_pool.map(on_pool), "ON_POOL", || {
            on_pool(OnPool::Refuse)
        });
        let strategy = self.said_or(self.attributes.strategy.map(strategy), "STRATEGY", || {
            strategy(Strategy::Auto)
        });
        let (code, methods) = self.code();
        let checks = self.profile_checks();
        quote! {
            #checks

            #[automatically_derived]
            impl #private::CapturedEntity for Entity {
                type Outbox = #outbox;

                fn declaration() -> &'static #private::Declaration<Self> {
                    static DECLARATION: ::std::sync::LazyLock<#private::Declaration<Entity>> =
                        ::std::sync::LazyLock::new(|| #private::Declaration {
                            app: #app,
                            name: #name,
                            payload: #payload,
                            operations: #operations,
                            stored: #stored,
                            held: #held,
                            json_with: #json_with,
                            refusal: #private::sensitive_key::<Entity>(#sensitive),
                            topic: #topic,
                            topic_with: #topic_with,
                            ordering_key: #ordering_key,
                            ordering_key_with: #ordering_key_with,
                            code: #code,
                            envelope: #envelope,
                            on_pool: #on_pool,
                            strategy: #strategy,
                        });
                    &DECLARATION
                }

                #methods
            }
        }
    }

    /// What the attribute says, else what the profile does, else the default; the last two below `__private`.
    fn said_or(
        &self,
        said: Option<TokenStream>,
        constant: &str,
        default: impl FnOnce() -> TokenStream,
    ) -> TokenStream {
        let private = private(&self.attributes.root);
        match (said, &self.attributes.profile) {
            (Some(said), _) => quote!(#private::#said),
            (None, Some(profile)) => {
                let constant = format_ident!("{constant}");
                quote!(<#profile as #private::CaptureProfile>::#constant)
            }
            (None, None) => {
                let default = default();
                quote!(#private::#default)
            }
        }
    }

    fn app(&self) -> TokenStream {
        let private = private(&self.attributes.root);
        let some = quote!(::core::option::Option::Some);
        match (&self.app, &self.attributes.profile) {
            (App::Named(app), _) | (App::Default(app), None) => quote!(#app),
            (App::Default(app), Some(profile)) => quote! {
                match <#profile as #private::CaptureProfile>::APP {
                    #some(app) => app,
                    _ => #app,
                }
            },
            (App::Missing(problem), Some(profile)) => quote! {
                const {
                    match <#profile as #private::CaptureProfile>::APP {
                        #some(app) => app,
                        _ => ::core::panic!(#problem),
                    }
                }
            },
            (App::Missing(problem), None) => quote!(::core::compile_error!(#problem)),
        }
    }

    /// That the profile's templates are ones, told at its name.
    fn profile_checks(&self) -> Option<TokenStream> {
        let private = private(&self.attributes.root);
        let profile = self.attributes.profile.as_ref()?;
        Some(quote_spanned! {profile.span()=>
            const _: () = #private::check_topic(<#profile as #private::CaptureProfile>::TOPIC);
            const _: () = #private::check_ordering_key(<#profile as #private::CaptureProfile>::ORDERING_KEY);
        })
    }

    /// The profile's functions.
    fn functions(&self) -> Option<TokenStream> {
        let private = private(&self.attributes.root);
        let profile = self.attributes.profile.as_ref()?;
        Some(quote_spanned! {profile.span()=>
            <<#profile as #private::CaptureProfile>::Functions as #private::ProfileFunctions<
                <Entity as #private::CapturedEntity>::Outbox,
            >>
        })
    }

    /// One of the profile's functions, if it has any.
    fn function_of_profile(&self, name: &str) -> TokenStream {
        match self.functions() {
            Some(functions) => {
                let name = format_ident!("{name}");
                quote!((!#functions::ARE_NONE).then_some(#functions::#name::<Entity>))
            }
            None => quote!(::core::option::Option::None),
        }
    }

    /// The topic's template, and the function that goes before it.
    fn topic(&self) -> (TokenStream, TokenStream) {
        let private = private(&self.attributes.root);
        let none = quote!(::core::option::Option::None);
        let default = || self.pieces(&parse(TOPIC, Purpose::Topic).unwrap_or_default());
        match (&self.attributes.topic, &self.attributes.profile) {
            (Some(Topic::Template(template)), _) => (self.pieces(template), none),
            (Some(Topic::Function(function)), _) => (default(), self.function(function, "topic_of")),
            (None, Some(profile)) => (
                quote! {
                    ::std::borrow::Cow::Owned(#private::topic_pieces(<#profile as #private::CaptureProfile>::TOPIC))
                },
                self.function_of_profile("topic"),
            ),
            (None, None) => (default(), none),
        }
    }

    /// The ordering key's template, and the function that goes before it.
    fn ordering_key(&self) -> (TokenStream, TokenStream) {
        let private = private(&self.attributes.root);
        let none = quote!(::core::option::Option::None);
        let some = |pieces: TokenStream| quote!(::core::option::Option::Some(#pieces));
        let default = || some(self.pieces(&parse(ORDERING_KEY, Purpose::OrderingKey).unwrap_or_default()));
        match (&self.attributes.ordering_key, &self.attributes.profile) {
            (Some(OrderingKey::Unordered), _) => (none.clone(), none),
            (Some(OrderingKey::Template(template)), _) => (some(self.pieces(template)), none),
            (Some(OrderingKey::Function(function)), _) => {
                (default(), self.function(function, "ordering_key_of"))
            }
            (None, Some(profile)) => (
                quote! {
                    <#profile as #private::CaptureProfile>::ORDERING_KEY
                        .map(|template| ::std::borrow::Cow::Owned(#private::ordering_key_pieces(template)))
                },
                self.function_of_profile("ordering_key"),
            ),
            (None, None) => (default(), none),
        }
    }

    /// A function of the change. What is wrong with it is told at its name.
    fn function(&self, function: &Path, answer: &str) -> TokenStream {
        let private = private(&self.attributes.root);
        let answer = format_ident!("{answer}");
        let change = local("change");
        let called = quote_spanned!(function.span()=> #private::#answer(#function(#change)));
        quote!(::core::option::Option::Some(|#change: &#private::CapturedChange<Entity>| #called))
    }

    /// What is run for each statement, and the method that runs it.
    fn code(&self) -> (TokenStream, Option<TokenStream>) {
        let private = private(&self.attributes.root);
        let (db, change, changes) = (local("db"), local("change"), local("changes"));
        let refused = |word: &str| quote!(|error| #private::refused::<Entity>(#word, error));
        match &self.attributes.code {
            Some(Code::Extend(function)) => {
                let refused = refused("extend");
                let called = quote_spanned!(function.span()=> #function(#db, #change).await);
                let extensions = local("extensions");
                let each = quote! {
                    let mut #extensions = ::std::vec::Vec::with_capacity(#changes.len());
                    for #change in #changes {
                        #extensions.push(#called.map_err(#refused)?);
                    }
                    ::core::result::Result::Ok(#extensions)
                };
                (quote!(#private::Code::Extend), Some(self.extend_changes(&each)))
            }
            Some(Code::ExtendMany(function)) => {
                let refused = refused("extend_many");
                let called = quote_spanned!(function.span()=> #function(#db, #changes).await);
                let all = quote!(#called.map_err(#refused));
                (quote!(#private::Code::Extend), Some(self.extend_changes(&all)))
            }
            Some(Code::Sink(sink)) => (quote!(#private::Code::Sink), Some(self.sink_changes(sink))),
            None => match self.functions() {
                Some(functions) => {
                    let refused = refused("profile");
                    let all = quote!(#functions::extend_many(#db, #changes).await.map_err(#refused));
                    let code = quote! {
                        if #functions::ARE_NONE { #private::Code::None } else { #private::Code::Extend }
                    };
                    (code, Some(self.extend_changes(&all)))
                }
                None => (quote!(#private::Code::None), None),
            },
        }
    }

    fn extend_changes(&self, body: &TokenStream) -> TokenStream {
        let private = private(&self.attributes.root);
        self.code_method("extend_changes", &quote!(#private::Extensions<Self>), body)
    }

    fn sink_changes(&self, sink: &Path) -> TokenStream {
        let private = private(&self.attributes.root);
        let (db, changes) = (local("db"), local("changes"));
        let written =
            quote_spanned!(sink.span()=> <#sink as #private::ChangeSink<Entity>>::write(#db, #changes));
        let body = quote!(#written.await.map_err(|error| #private::refused::<Entity>("sink", error)));
        self.code_method("sink_changes", &quote!(()), &body)
    }

    fn code_method(&self, name: &str, answer: &TokenStream, body: &TokenStream) -> TokenStream {
        let private = private(&self.attributes.root);
        let sea_orm = quote!(#private::sea_orm);
        let (name, db, changes) = (format_ident!("{name}"), local("db"), local("changes"));
        quote! {
            fn #name<'c, C: #sea_orm::ConnectionTrait>(
                #db: &'c C,
                #changes: ::std::vec::Vec<#private::CapturedChange<Self>>,
            ) -> #private::BoxFuture<'c, ::core::result::Result<#answer, #sea_orm::DbErr>> {
                ::std::boxed::Box::pin(async move { #body })
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
        quote!(::std::borrow::Cow::Borrowed(&[#(#pieces),*]))
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
        let links = self.link_methods();
        let active_model_ex = if self.has_relations {
            methods_of("ActiveModelEx", links.iter().cloned())
        } else {
            None
        };
        let active_model = methods_of("ActiveModel", active_model.into_iter().flatten().chain(links));
        let model = methods_of("Model", model);
        let entity = methods_of("Entity", self.builder_methods());
        quote!(#active_model #active_model_ex #model #entity)
    }

    /// What SeaORM's nested deletes call to remove the rows of a junction.
    fn link_methods(&self) -> Vec<TokenStream> {
        let private = private(&self.attributes.root);
        let sea_orm = quote!(#private::sea_orm);
        let vis = self.vis;
        let deletes = |name: &str, doc: &str, bounds: TokenStream| {
            let name = format_ident!("{name}");
            quote! {
                #[doc = #doc]
                #vis fn #name<'a, J, C>(
                    &'a self,
                    junction: J,
                    db: &'a C,
                ) -> #private::BoxFuture<'a, ::core::result::Result<#sea_orm::DeleteResult, #sea_orm::DbErr>>
                where
                    #bounds
                    C: #sea_orm::ConnectionTrait,
                    // Asked at the call: a model that is not `Sync` has no links to delete, as in SeaORM.
                    for<'__hare> Self: ::core::marker::Sync,
                {
                    #private::links::#name(self, junction, db)
                }
            }
        };
        let methods = [
            (
                Method::DeleteLinks,
                deletes(
                    "delete_links",
                    "Deletes the rows of a junction that link this one, and writes their events if the junction is captured.",
                    quote!(J: #sea_orm::EntityTrait + #sea_orm::Related<Entity>,),
                ),
            ),
            (
                Method::DeleteLinksSelf,
                deletes(
                    "delete_links_self",
                    "As `delete_links`, for a junction of this entity with itself.",
                    quote! {
                        J: #sea_orm::EntityTrait,
                        Entity: #sea_orm::RelatedSelfVia<J>,
                    },
                ),
            ),
        ];
        let wanted = methods.into_iter().filter(|(method, _)| self.writes(*method));
        wanted.map(|(_, tokens)| tokens).collect()
    }

    /// The statements of the entity: SeaORM's names and parameters, our builders.
    fn builder_methods(&self) -> Vec<TokenStream> {
        let private = private(&self.attributes.root);
        let sea_orm = quote!(#private::sea_orm);
        let vis = self.vis;
        let active_model = quote!(A: #sea_orm::ActiveModelTrait<Entity = Self> + ::core::marker::Send);
        let key =
            quote!(<<Self as #sea_orm::EntityTrait>::PrimaryKey as #sea_orm::PrimaryKeyTrait>::ValueType);
        let methods = [
            (
                Method::EntityInsert,
                quote! {
                    /// An insert of this model, captured.
                    #vis fn insert<A>(model: A) -> #private::builders::Insert<A>
                    where
                        #active_model,
                    {
                        #private::builders::Insert::one(model)
                    }
                },
            ),
            (
                Method::InsertMany,
                quote! {
                    /// An insert of these models, captured: one event per row.
                    #vis fn insert_many<A, I>(models: I) -> #private::builders::InsertMany<A>
                    where
                        #active_model,
                        I: ::core::iter::IntoIterator<Item = A>,
                    {
                        #private::builders::InsertMany::many(models)
                    }
                },
            ),
            (
                Method::EntityUpdate,
                quote! {
                    /// An update of this model's row, captured.
                    #vis fn update<A>(model: A) -> #private::builders::UpdateOne<A>
                    where
                        #active_model,
                    {
                        #private::builders::UpdateOne::new(model)
                    }
                },
            ),
            (
                Method::UpdateMany,
                quote! {
                    /// An update of many rows, captured: one event per row.
                    #vis fn update_many() -> #private::builders::UpdateMany<Self> {
                        #private::builders::UpdateMany::new(::core::default::Default::default())
                    }
                },
            ),
            (
                Method::EntityDelete,
                quote! {
                    /// A delete of this model's row, captured.
                    #vis fn delete<A>(model: A) -> #private::builders::DeleteOne<Self>
                    where
                        A: #sea_orm::ActiveModelTrait<Entity = Self>,
                    {
                        #private::builders::DeleteOne::new(model)
                    }
                },
            ),
            (
                Method::DeleteMany,
                quote! {
                    /// A delete of many rows, captured: one event per row.
                    #vis fn delete_many() -> #private::builders::DeleteMany<Self> {
                        #private::builders::DeleteMany::new(::core::default::Default::default())
                    }
                },
            ),
            (
                Method::DeleteById,
                quote! {
                    /// A delete of the row of this key, captured.
                    #vis fn delete_by_id<T>(key: T) -> #private::builders::ValidatedDeleteOne<Self>
                    where
                        T: ::core::convert::Into<#key>,
                    {
                        #private::builders::ValidatedDeleteOne::by_id(key)
                    }
                },
            ),
        ];
        let wanted = methods.into_iter().filter(|(method, _)| self.writes(*method));
        wanted.map(|(_, tokens)| tokens).collect()
    }

    fn writes(&self, method: Method) -> bool {
        !self.attributes.no_shadow.contains(&method)
    }

    fn method(
        &self,
        method: Method,
        name: &str,
        doc: &str,
        answer: &TokenStream,
        subject: &TokenStream,
    ) -> Option<TokenStream> {
        if !self.writes(method) {
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

/// The methods as an impl of this type; none, if there are none.
fn methods_of(of: &str, methods: impl IntoIterator<Item = TokenStream>) -> Option<TokenStream> {
    let methods = methods.into_iter().collect::<TokenStream>();
    let of = format_ident!("{of}");
    (!methods.is_empty()).then(|| quote!(#[allow(dead_code)] impl #of { #methods }))
}

/// A variable that no path of the user's can mean.
fn local(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

fn payload(payload: Payload) -> TokenStream {
    match payload {
        Payload::Keys => quote!(Payload::Keys),
        Payload::After => quote!(Payload::After),
        Payload::BeforeAndAfter => quote!(Payload::BeforeAndAfter),
    }
}

fn operations(operations: Operations) -> TokenStream {
    let Operations {
        insert,
        update,
        delete,
    } = operations;
    quote!(Operations { insert: #insert, update: #update, delete: #delete })
}

fn envelope(envelope: Envelope) -> TokenStream {
    match envelope {
        Envelope::Plain => quote!(EnvelopeForm::Plain),
        Envelope::CloudEvents => quote!(EnvelopeForm::CloudEvents),
    }
}

fn on_pool(on_pool: OnPool) -> TokenStream {
    match on_pool {
        OnPool::Refuse => quote!(OnPool::Refuse),
        OnPool::NonAtomic => quote!(OnPool::NonAtomic),
    }
}

fn strategy(strategy: Strategy) -> TokenStream {
    match strategy {
        Strategy::Auto => quote!(Strategy::Auto),
        Strategy::Portable => quote!(Strategy::Portable),
    }
}

fn columns<'a>(columns: impl IntoIterator<Item = &'a Column>) -> TokenStream {
    let columns = columns
        .into_iter()
        .map(|Column { field, variant, .. }| quote!((#field, Column::#variant)));
    quote!(&[#(#columns),*])
}

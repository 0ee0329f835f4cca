//! An async function as a delivery.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::marker::PhantomData;

use super::{DeliveryError, OutboxDelivery, Receipt};
use crate::outbox::OutboxEvent;

/// Delivers by calling an async function with each event.
///
/// `Ok` means delivered. An error counts as an attempt and the event is tried again, unless it is a
/// [`DeliveryError::unavailable`]. The function runs outside any transaction and may use the database.
///
/// ```
/// use hare_seaorm::{CallableDelivery, outbox};
///
/// let delivery = CallableDelivery::new(|event: outbox::Model| async move {
///     println!("{} {}", event.topic, event.payload.as_str());
///     Ok::<_, std::io::Error>(())
/// });
/// # let _: &dyn hare_seaorm::OutboxDelivery = &delivery;
/// ```
pub struct CallableDelivery<F, M> {
    function: F,
    events: PhantomData<fn(M)>,
}

impl<F, M> CallableDelivery<F, M> {
    /// Calls `function` with a copy of each event.
    pub fn new<Called, T, E>(function: F) -> Self
    where
        F: Fn(M) -> Called + Send + Sync + 'static,
        Called: Future<Output = Result<T, E>> + Send,
        T: Any + Send,
        E: Into<Box<dyn StdError + Send + Sync>> + 'static,
    {
        Self {
            function,
            events: PhantomData,
        }
    }
}

impl<F, M> fmt::Debug for CallableDelivery<F, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallableDelivery").finish_non_exhaustive()
    }
}

#[async_trait::async_trait]
impl<F, M, Called, T, E> OutboxDelivery<M> for CallableDelivery<F, M>
where
    M: OutboxEvent,
    F: Fn(M) -> Called + Send + Sync + 'static,
    Called: Future<Output = Result<T, E>> + Send,
    T: Any + Send,
    E: Into<Box<dyn StdError + Send + Sync>> + 'static,
{
    async fn deliver(&self, event: &M) -> Result<Receipt, DeliveryError> {
        match (self.function)(event.clone()).await {
            Ok(value) => {
                let value: Box<dyn Any + Send> = Box::new(value);
                Ok(value
                    .downcast::<Receipt>()
                    .map(|receipt| *receipt)
                    .unwrap_or_default())
            }
            Err(error) => Err(DeliveryError::from_any(error)),
        }
    }
}

impl DeliveryError {
    /// The error as it is if it is a `DeliveryError`, else a failure caused by it.
    fn from_any<E: Into<Box<dyn StdError + Send + Sync>>>(error: E) -> Self {
        match error.into().downcast::<DeliveryError>() {
            Ok(ours) => *ours,
            Err(other) => Self {
                type_name: std::any::type_name::<E>(),
                ..Self::failed(other)
            },
        }
    }
}

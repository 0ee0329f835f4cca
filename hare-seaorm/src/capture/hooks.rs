//! Layer 2: what the derive's `ActiveModelBehavior` does, for code that is generic over `ActiveModelTrait`.

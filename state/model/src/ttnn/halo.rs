//! Windows over shards: the neighbours' rows are brought in first, by a workload of its own.

use super::operations::{self, Window};
use super::{Call, Mesh, OperationError, Tensor, Ttnn};
use ttmem_event::Class;

/// The window of a call that needs a halo; `None` for any other call.
pub(super) fn of(call: &Call<'_>) -> Option<Window> {
    let first = call.inputs.first()?;
    // Asked before every call, so what is cheap and rare comes first.
    if first.spec.sharding.is_none() || first.spec.class != Class::L1 {
        return None;
    }
    let operation = operations::find(call.operation).ok()?;
    let window = Window::new(&first.spec, call.attributes);
    (operation.window && window.kernel > 1).then_some(window)
}

impl Ttnn {
    /// Runs `halo`, the operation on what that returns, and gives that back.
    pub(super) fn run_with_halo(
        &mut self,
        mesh: Mesh,
        call: &Call<'_>,
        window: &Window,
    ) -> Result<Option<Tensor>, OperationError> {
        operations::find(call.operation)?.check(call)?;
        // The operation must not take the size of the image from a tensor with a halo.
        let mut attributes = window.attributes().to_vec();
        let given = |name: &str| window.attributes().iter().any(|(known, _)| *known == name);
        let rest = call.attributes.iter().filter(|(name, _value)| !given(name));
        attributes.extend(rest);
        let halo = Call {
            operation: "halo",
            inputs: call.inputs.get(..1).unwrap_or_default(),
            output: None,
            attributes: &attributes,
        };
        let Some(image) = self.run_one(mesh, &halo)? else {
            return self.run_one(mesh, call);
        };
        let mut inputs = call.inputs.to_vec();
        if let Some(first) = inputs.first_mut() {
            *first = &image;
        }
        let ran = self.run_one(
            mesh,
            &Call {
                operation: call.operation,
                inputs: &inputs,
                output: call.output.clone(),
                attributes: &attributes,
            },
        );
        self.deallocate(image)?;
        ran
    }
}

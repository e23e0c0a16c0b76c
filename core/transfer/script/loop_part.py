"""The training loop of a run and its scoring, as lines of its script."""

from collections.abc import Iterator

import torch

from core.training.evaluation import EVALUATION_BATCH
from core.training.loop import PLATEAU_THRESHOLD
from core.transfer.script.scripted import Code, Does, Scripted


def evaluation(run: Scripted) -> Iterator[str]:
    """Loss and accuracy over a split."""
    yield f'''# --- scoring ---


def evaluate(net, images, labels):
    """(mean loss, accuracy) in eval mode; every digit weighs the same."""
    net.eval()
    loss_sum, right = 0.0, 0
    with torch.inference_mode():
        for start in range(0, len(labels), {EVALUATION_BATCH}):
            batch = torch.from_numpy(images[start : start + {EVALUATION_BATCH}]).to(device)
            wanted = torch.from_numpy(labels[start : start + {EVALUATION_BATCH}]).to(device)
            logits = net(normalise(batch)).float()
            loss_sum += F.cross_entropy(logits, wanted, reduction="sum").item()
            right += ((logits.argmax(1) == wanted) & logits.isfinite().all(1)).sum().item()  # NaN is no answer
    return loss_sum / len(labels), right / len(labels)'''


def training(run: Scripted) -> Iterator[str]:
    """The loop, its lines marked with what they do."""
    config = run.config
    patience, group = config.early_stopping_patience, config.accumulation_steps > 1
    yield "# --- training ---\n"
    yield "losses, step = [], 0\nbest, best_weights = (-1.0, -math.inf), None"
    if patience:
        yield "lowest_loss, stale = math.inf, 0"
    if group:
        yield _GROUPS.format(config.accumulation_steps)
    source = "groups(batches(epoch))" if group else "batches(epoch)"
    yield "for epoch in range(EPOCHS):\n    train_mode()\n    done = 0"
    yield Code(f"    for {'group' if group else 'images, labels'} in {source}:", Does.DATA)
    if run.drops:
        yield Code(_MASKS, Does.DROPOUT)
    if run.scheduled:
        drops = " * drops" if run.plateau else ""
        rate = f'        for one in optimizer.param_groups:\n            one["lr"] = LEARNING_RATE * factor(step){drops}'
        yield Code(rate, Does.SCHEDULE)
    yield Code("        optimizer.zero_grad()", Does.ZERO_GRAD)
    yield from _forward_backward(run)
    if config.gradient_clip is not None:
        if run.started.precision == "float16":
            yield Code("        scaler.unscale_(optimizer)", Does.CLIP)
        yield Code(f"        nn.utils.clip_grad_norm_(model.parameters(), {config.gradient_clip!r})", Does.CLIP)
    scaled = run.started.precision == "float16"
    steps = "        scaler.step(optimizer)\n        scaler.update()" if scaled else "        optimizer.step()"
    yield Code(steps, Does.OPTIMIZER)
    yield "        step, done = step + 1, done + 1"
    yield from _validation(run)
    if patience:
        yield f"    if stale >= {patience}:\n        break"
    yield Code(_TEST, Does.TEST)
    yield """with open("losses.csv", "w") as file:
    file.writelines(f"{number},{value!r}\\n" for number, value in enumerate(losses, 1))"""


_MASKS = """        for place, module in enumerate(model.modules()):
            if isinstance(module, Dropout):
                module.generator = torch.Generator(device).manual_seed(seed_for("dropout", step, place))"""
_TEST = """
model.load_state_dict(best_weights)  # the weights that the validation digits chose
loss, accuracy = evaluate(model, test_images, test_labels)
print(f"test loss {loss:.4f}, accuracy {accuracy:.2%}")"""
_GROUPS = '''

def groups(source):
    """Batches whose gradients are added up before one update."""
    group = []
    for batch in source:
        group.append(batch)
        if len(group) == {}:
            yield group
            group = []
    if group:
        yield group

'''


def _forward_backward(run: Scripted) -> Iterator[str]:
    config, precision = run.config, run.started.precision
    smoothing = f", label_smoothing={config.label_smoothing!r}" if config.label_smoothing else ""
    indent, group = "        ", config.accumulation_steps > 1
    if group:
        yield "        samples = sum(len(labels) for _, labels in group)\n        total = torch.zeros((), device=device)"
        yield "        for images, labels in group:"
        indent += "    "
    inner = indent
    if precision != "float32":
        kind = torch.device(run.started.device).type
        yield Code(f'{indent}with torch.autocast("{kind}", dtype=torch.{precision}):', Does.FORWARD)
        inner += "    "
    yield Code(f"{inner}loss = F.cross_entropy(model(images), labels{smoothing})", Does.FORWARD)
    if group:
        yield f"{indent}share = len(labels) / samples  # so that a smaller last batch counts no more than its digits"
    loss = "(loss * share)" if group else "loss"
    backward = f"scaler.scale({loss}).backward()" if precision == "float16" else f"{loss}.backward()"
    yield Code(f"{indent}{backward}", Does.BACKWARD)
    if group:
        yield f"{indent}total += loss.detach() * share"
    yield Code(f"        losses.append({'total' if group else 'loss'}.item())", Does.LOSS)
    yield '        if not math.isfinite(losses[-1]):\n            sys.exit(f"The loss became {losses[-1]} at step {step + 1}.")'


def _validation(run: Scripted) -> Iterator[str]:
    config, times, per_epoch = run.config, run.config.validations_per_epoch, run.per_epoch
    last = "step == TOTAL_STEPS"
    due = {0: last, 1: f"done == {per_epoch}"}.get(
        times, f"done * {times} // {per_epoch} > (done - 1) * {times} // {per_epoch}"
    )
    yield Code(f"        if {due}:", Does.VALIDATION)
    yield Code(
        """            loss, accuracy = evaluate(model, validation_images, validation_labels)
            print(f"epoch {step / """
        + f"{per_epoch}"
        + """:.2f}, step {step}: validation loss {loss:.4f}, accuracy {accuracy:.2%}")
            if (accuracy, -loss) > best or best_weights is None:
                best, best_weights = (accuracy, -loss), copy.deepcopy(model.state_dict())""",
        Does.VALIDATION,
    )
    if config.early_stopping_patience:
        yield """            stale = 0 if loss < lowest_loss else stale + 1
            lowest_loss = min(loss, lowest_loss)"""
    if run.plateau:
        yield f"""            if loss < plateau_best * (1 - {PLATEAU_THRESHOLD}):
                plateau_best, plateau_stale = loss, 0
            else:
                plateau_stale += 1
                if plateau_stale >= {config.schedule_epochs}:
                    drops, plateau_stale = drops * {config.schedule_factor!r}, 0"""
    yield "            train_mode()"
    if config.early_stopping_patience:
        yield f"            if stale >= {config.early_stopping_patience}:\n                break"

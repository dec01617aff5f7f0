#!/usr/bin/env python3
"""The Python package, over the build's library, against the command and other witnesses.

  package.py ROOT COMMAND    with the library in $MICA_LIBRARY, unless the package is installed
"""
import array
import asyncio
import ctypes
import gc
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import weakref

ROOT, COMMAND = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
del sys.argv[1:3]
PYTHON = os.environ.get('PYTHON', sys.executable)  # what starts another one
MODEL = str(ROOT / 'models/default')
if 'MICA_LIBRARY' in os.environ:
    sys.path.insert(0, str(ROOT / 'bindings/python'))
sys.dont_write_bytecode = True
import mica  # pylint: disable=wrong-import-position
from mica import _c, _library  # pylint: disable=wrong-import-position

try:
    import numpy
except ImportError:
    numpy = None
try:
    import pydantic
except ImportError:
    pydantic = None
CURL = 'curl is a command line tool for transferring data with URLs.'


def command(*arguments, told=''):
    done = subprocess.run([COMMAND, *arguments], input=told.encode(), capture_output=True,
                          check=True, timeout=100)
    return done.stdout.decode()


class WithModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = mica.Model(MODEL)

    @classmethod
    def tearDownClass(cls):
        cls.model.close()
        cls.model.close()


class Answers(WithModel):
    def test_chat(self):
        with self.model.chat('What is curl?') as stream:
            tokens = list(stream)
        self.assertEqual(''.join(tokens) + '\n', command('run', MODEL, 'What is curl?'))
        self.assertTrue(stream.text.startswith(CURL))
        self.assertEqual(stream.finish, 'stop')
        self.assertEqual(stream.metrics.generated_tokens, len([t for t in tokens if t.id >= 0]))
        self.assertEqual(stream.message, {'role': 'assistant', 'content': stream.text})
        self.assertEqual(list(stream), [])
        self.assertIn('stop', repr(stream))

    def test_generate_and_options(self):
        want = json.loads(command('generate', MODEL, 'The sea is', '--max-tokens', '9', '--json'))
        stream = self.model.generate('The sea is', max_tokens=9, top_logprobs=3)
        self.assertEqual(stream.read(), want['text'])
        self.assertEqual(stream.finish, 'length')
        for token in stream.tokens:
            self.assertEqual(len(token.alternatives), 3)
            self.assertIn((token.id, token.logprob), token.alternatives)
        ids = self.model.encode('The sea is')
        self.assertEqual(self.model.generate(ids, max_tokens=9).read(), want['text'])
        self.assertEqual(self.model.generate('The sea is', max_tokens=9, stop=' robust').text, '')
        stopped = self.model.generate('The sea is', max_tokens=9, stop=[' robust', 5])
        self.assertTrue(want['text'].startswith(stopped.read()))
        self.assertEqual(stopped.finish, 'stop')
        draws = [self.model.generate('The', max_tokens=9, temperature=1.0, seed=s).read()
                 for s in (1, 1, 2)]
        self.assertEqual(draws[0], draws[1])
        self.assertNotEqual(draws[0], draws[2])
        with self.assertRaisesRegex(TypeError, 'max_token'):
            self.model.chat('Hi', max_token=3)

    def test_a_session_keeps_what_it_has_read(self):
        with self.model.session() as session:
            first = session.chat('What is curl?', max_tokens=5)
            first.read()
            talk = [{'role': 'user', 'content': 'What is curl?'}, first.message,
                    {'role': 'user', 'content': 'And git?'}]
            second = session.chat(talk, max_tokens=5)
            second.read()
            self.assertGreater(second.metrics.reused_tokens, 10)
            with session.fork() as fork, tempfile.TemporaryDirectory() as folder:
                self.assertEqual(len(fork), len(session))
                session.save(folder + '/saved')
                with mica.Session.load(self.model, folder + '/saved') as loaded:
                    self.assertEqual(len(loaded), len(session))
                self.assertEqual(fork.cut(3), 3)
        with self.assertRaises(mica.ClosedError):
            session.chat('Hi')

    def test_constraints(self):
        schema = {'type': 'object', 'properties': {'n': {'type': 'integer'}}, 'required': ['n'],
                  'additionalProperties': False}
        self.assertIsInstance(self.model.chat('A number', schema=schema).parsed['n'], int)
        self.assertIn(self.model.chat('A or B?', choice=['A', 'B']).read(), 'AB')
        self.assertRegex(self.model.chat('When?', regex='[0-9]{4}').read(), '^[0-9]{4}$')
        with self.assertRaises(mica.InvalidError):
            self.model.chat('Hi', regex='a', choice=['b'])

        class Pydantic:  # what pydantic's classes have
            @staticmethod
            def model_json_schema():
                return schema

            @classmethod
            def model_validate_json(cls, text):
                made = cls()
                made.n = json.loads(text)['n']
                return made

        self.assertIsInstance(self.model.chat('A number', schema=Pydantic).parsed, Pydantic)

    @unittest.skipUnless(pydantic, 'there is no pydantic')
    def test_pydantic(self):
        class Person(pydantic.BaseModel):
            name: str = pydantic.Field(max_length=20)
            age: int = pydantic.Field(ge=0, le=150)

        person = self.model.chat('Ann is 30. Who is she?', schema=Person).parsed
        self.assertIsInstance(person, Person)
        self.assertIsInstance(person.age, int)

    def test_tools(self):
        def add(a: int, b: float = 0.0, *, names: 'list[str]' = ()) -> float:
            """Adds numbers."""
            return a + b

        from mica import _options
        tool = _options.tool_of(add)['function']
        self.assertEqual(tool['description'], 'Adds numbers.')
        self.assertEqual(tool['parameters']['required'], ['a'])
        self.assertEqual(tool['parameters']['properties']['a'], {'type': 'integer'})
        prompt = self.model.render('Hi', tools=[add])
        self.assertIn('Adds numbers.', prompt)
        call = {'id': 'call_0', 'function': {'name': 'add', 'arguments': '{"a": 1, "b": 2}'}}
        from mica import _model
        self.assertEqual(_model._result_of(call, {'add': add})['content'], '3')
        self.assertIn('error', _model._result_of(call, {})['content'])
        talk = [{'role': 'user', 'content': 'Add'},
                {'role': 'assistant', 'content': None, 'tool_calls': [call]},
                {'role': 'tool', 'content': '3', 'name': 'add', 'tool_call_id': 'call_0'}]
        self.assertIn('3', self.model.render(talk))

    def test_batch(self):
        seen, ended = {}, []
        prompts = ['The sea is', [{'role': 'user', 'content': 'What is curl?'}],
                   {'prompt': 'The sun', 'max_tokens': 3}, '']
        rows = self.model.batch(prompts, max_tokens=8, parallel=2, done=ended.append,
                                token=lambda row, token: seen.setdefault(row, []).append(token))
        self.assertEqual(sorted(ended), [0, 1, 2, 3])
        self.assertEqual(''.join(seen[0]), rows[0].text)
        self.assertIsInstance(rows[3].error, mica.InvalidError)
        lines = '\n'.join(json.dumps(x) for x in (
            {'prompt': prompts[0]}, {'messages': prompts[1]},
            {'prompt': 'The sun', 'max_tokens': 3}))
        want = [json.loads(line) for line in
                command('batch', MODEL, '--max-tokens', '8', '--quiet', told=lines).splitlines()]
        self.assertEqual(sorted(row.text for row in rows[:3]),
                         sorted(line['text'] for line in want))
        self.assertEqual([row.finish for row in rows[:3]], ['length'] * 3)
        self.assertEqual(self.model.batch([]), [])
        cut = self.model.batch(prompts[:1], token=lambda row, token: False)
        self.assertEqual(cut[0].finish, 'cancelled')
        with self.assertRaisesRegex(ZeroDivisionError, 'by zero'):
            self.model.batch(prompts[:2], token=lambda row, token: 1 / 0)


class Tasks(WithModel):
    def test_embed_is_the_commands(self):
        texts = ['The sea is blue.', 'curl', 'A longer text about the sea and the sun.']
        want = [json.loads(line)['embedding'] for line in
                command('embed', MODEL, '--quiet', told='\n'.join(texts)).splitlines()]
        got = self.model.embed(texts)
        self.assertEqual(got.shape, (3, len(want[0])))
        same = array.array('f', sum(want, []))
        self.assertEqual(got.view.tobytes(), same.tobytes())
        self.assertEqual(self.model.embed(texts[1]).tolist(), got[1].tolist())
        self.assertAlmostEqual(sum(x * x for x in self.model.embed('a', normalise=True)), 1, 5)
        with self.assertRaises(mica.InvalidError):
            self.model.embed(['a', ''])
        got.view[0, 0] = 7  # it is the caller's, also by DLPack
        tensor = mica._dlpack.take(Versioned(got))[0]
        self.assertEqual(ctypes.c_uint64.from_address(tensor + 24).value, 0)  # no flag
        self.assertEqual(ctypes.c_void_p.from_address(tensor + 32).value, got.address)

    def test_score_and_classify(self):
        score = self.model.score('The sea is blue.')
        want = json.loads(command('score', MODEL, 'The sea is blue.', '--json'))
        self.assertAlmostEqual(score.perplexity, want['perplexity'], delta=1e-3 * score.perplexity)
        self.assertAlmostEqual(score.total, sum(score.logprobs), 3)
        self.assertIsNotNone(self.model.score(['The sea', ''])[1].error)
        rows = self.model.classify(['I like it.', 'I hate it.'], [' good', ' bad'],
                                   template='{} In short:')
        for row in rows:
            self.assertEqual(row.label, max(row.labels, key=row.labels.get))

    def test_rerank_says_what_it_cannot(self):
        with self.assertRaises(mica.UnsupportedError):
            self.model.rerank('sea', ['a', 'b'])

    def test_forward_scores_as_score(self):
        ids = self.model.encode('The sea is blue.')
        with mica.Scope(self.model):
            logits = self.model.forward(ids)
            logs = logits - mica.ops.logsumexp(logits, [-1], True)
            rows = logs.tolist()[0]
        want = self.model.score('The sea is blue.').logprobs
        for i in range(1, len(ids)):
            self.assertAlmostEqual(rows[i - 1][ids[i]], want[i], 3)


class Ending(WithModel):
    def test_cancelled_from_another_thread(self):
        stream = self.model.generate('The sea is', ignore_eos=True)
        threading.Timer(0.2, stream.cancel).start()
        stream.read()
        self.assertEqual(stream.finish, 'cancelled')

    def test_closed_from_another_thread(self):
        for _ in range(20):
            stream = self.model.generate('The sea is', ignore_eos=True)
            thread = threading.Timer(0.01, stream.close)
            thread.start()
            try:
                stream.read()
            except mica.ClosedError:
                pass
            thread.join()
            self.assertTrue(stream.closed)
            stream.close()

    def test_cancelled_by_a_flag(self):
        flag = mica.Cancel()
        flag.set()
        self.assertEqual([row.finish for row in self.model.batch(['a', 'b'], cancel=flag)],
                         ['cancelled'] * 2)
        with self.assertRaises(mica.CancelledError):
            mica.tune(MODEL, [{'text': 'a b c'}] * 4, iterations=100, cancel=flag)

    def test_async(self):
        async def both():
            async def ask(question):
                return ''.join([token async for token in self.model.chat(question, max_tokens=12)])
            return await asyncio.gather(ask('What is curl?'), ask('What is git?'))

        answers = asyncio.run(both())
        self.assertTrue(CURL.startswith(answers[0][:30]))

        async def left():
            stream = self.model.generate('The sea is', ignore_eos=True)
            async for _ in stream:
                break
            task = asyncio.ensure_future(self.drain(stream))
            await asyncio.sleep(0.1)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                pass
            return stream

        asyncio.run(left())

    @staticmethod
    async def drain(stream):
        async for _ in stream:
            pass

    def test_interrupted(self):
        """While the prompt is computed, while tokens are, and in a call that has no tokens."""
        program = '''
import os, signal, sys, threading, time
sys.path[:0] = %r
import mica
model = mica.Model(%r)
def interrupt(after):
    threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT)).start()
def expect(what, work):
    began = time.monotonic()
    try:
        work()
    except KeyboardInterrupt:
        print(what)
text = 'The sea is blue and the sun is warm. ' * 140
interrupt(0.3)
expect('prompt', lambda: [model.generate(text, max_tokens=1).read() for _ in range(200)])
stream = model.generate('The sea', ignore_eos=True)
next(stream)
interrupt(0.3)
expect('tokens', lambda: [model.generate('The sea', ignore_eos=True).read() for _ in range(200)])
interrupt(0.3)
expect('batch', lambda: model.batch(['The sea'] * 800, ignore_eos=True))
interrupt(0.3)
expect('tune', lambda: model.tune([{'text': 'The sea is blue.'}] * 8, iterations=10000))
print(model.chat('What is curl?', max_tokens=4).read())
''' % (sys.path[:1], MODEL)
        done = subprocess.run([PYTHON, '-c', program], capture_output=True, timeout=100,
                              check=False)
        self.assertEqual(done.stdout.decode().split('\n'),
                         ['prompt', 'tokens', 'batch', 'tune', 'curl is a command', ''],
                         done.stderr.decode())

    def test_all_is_freed(self):
        model = mica.Model(MODEL)
        stream = model.chat('Hi')
        next(stream)
        gone = weakref.ref(model)
        del model, stream
        gc.collect()
        self.assertIsNone(gone())

    def test_many_opens_streams_and_closes(self):
        """Handles and memory stay the same, whatever of 16 threads closes what; each tenth time a
        model of its own. MICA_ROUNDS says how many: 300, or 10,000 in python.package.long."""
        rounds, workers = int(os.environ.get('MICA_ROUNDS', '300')), 16
        failed = []

        def once(i):
            model = mica.Model(MODEL) if i % 10 == 0 else self.model
            session = model.session()
            stream = session.generate('The', max_tokens=2)
            next(stream)
            ends = [stream.close, session.close] + ([model.close] if i % 10 == 0 else [])
            if i % 3 == 0:
                for end in ends:
                    end()
            elif i % 3 == 1:
                others = [threading.Thread(target=end) for end in ends]
                for other in others:
                    other.start()
                for other in others:
                    other.join()

        def work(n):
            try:
                for i in range(n):
                    once(i)
            except BaseException as error:  # pylint: disable=broad-except
                failed.append(error)

        def run(n):
            threads = [threading.Thread(target=work, args=(n,)) for _ in range(workers)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            gc.collect()

        class Mallinfo2(ctypes.Structure):
            _fields_ = [(name, ctypes.c_size_t) for name in (
                'arena', 'ordblks', 'smblks', 'hblks', 'hblkhd', 'usmblks', 'fsmblks', 'uordblks',
                'fordblks', 'keepcost')]

        libc = ctypes.CDLL(None)
        if not hasattr(libc, 'mallinfo2'):
            self.skipTest("it counts what glibc's heap has in use, from 2.33 on")
        libc.mallinfo2.restype = Mallinfo2

        def in_use():  # what the process has of the system varies with what threads do at once
            info = libc.mallinfo2()
            return info.uordblks + info.hblkhd

        def handles():
            return sum(isinstance(x, _library.Handle) and not x.closed for x in gc.get_objects())

        run(10)
        open_before, growth = handles(), []
        for _ in range(2):  # what leaks grows each time
            before = in_use()
            run((rounds // 2 + workers - 1) // workers)
            growth.append(in_use() - before)
        self.assertEqual(failed, [])
        self.assertEqual(handles(), open_before)
        self.assertLess(min(growth), 1 << 20, growth)

    def test_errors(self):
        with self.assertRaisesRegex(mica.NotFoundError, '/nowhere') as caught:
            mica.Model('/nowhere')
        self.assertEqual(caught.exception.status, 'MICA_ENOENT')
        self.assertIsInstance(caught.exception, FileNotFoundError)
        with self.assertRaises(mica.InvalidError):
            mica.Model(MODEL, arithmetic='slow')
        with self.assertRaises(mica.InvalidError):
            self.model.chat('a\0b')
        with self.assertRaisesRegex(mica.NotFoundError, 'mica.pull'):
            mica.Model('org/name')
        with self.assertRaisesRegex(mica.InvalidError, 'top_k: 4294967297 is out of range'):
            self.model.chat('Hi', top_k=2**32 + 1)
        for work in (self.model.decode, self.model.generate):
            with self.assertRaisesRegex(mica.InvalidError, 'more than 32 bits'):
                work([2**32 + 5])
        for options in ({'stop': [2**32 + 3]}, {'logit_bias': {2**32 + 3: 1.0}}):
            with self.assertRaisesRegex(mica.InvalidError, 'more than 32 bits'):
                self.model.chat('Hi', **options)
        flag = mica.Cancel()
        flag.close()
        flag.set()
        with self.assertRaises(mica.ClosedError):
            self.model.score('a b c', cancel=flag)
        closed = mica.Model(MODEL)
        closed.close()
        with self.assertRaises(mica.ClosedError):
            closed.chat('Hi')
        self.assertIn('closed', repr(closed))
        self.assertEqual({name for name in _c.mica_status if name != 'ok'}, set(_library._ERRORS))


class Training(unittest.TestCase):
    def test_a_step(self):
        reports = []
        examples = [{'prompt': 'What is mica?', 'completion': 'A stone.'}] * 8
        with tempfile.TemporaryDirectory() as folder:
            result = mica.tune(MODEL, examples, adapter=folder, iterations=8, batch_size=4, rank=4,
                               learning_rate=1e-3, report_every=4, watch=reports.append)
            self.assertEqual(result.iteration, 8)
            losses = [r.loss for r in reports if r.event == 'train']
            self.assertEqual(len(losses), 2)
            self.assertLess(losses[1], losses[0])
            with mica.Model(MODEL, adapter=folder) as tuned:
                self.assertEqual(tuned.info.adapter, folder)
        with self.assertRaisesRegex(RuntimeError, 'enough'):
            def stop(report):
                raise RuntimeError('enough')
            mica.tune(MODEL, examples, iterations=8, watch=stop)

    def test_a_loss_of_ones_own(self):
        def loss(logits, targets, mask):
            logs = mica.ops.logsumexp(logits, [-1], False) - mica.ops.squeeze(
                mica.ops.take_along_axis(logits, mica.ops.expand_dims(targets, -1), -1), -1)
            return (logs * mask).sum() / mask.sum()

        got = []
        for loss_fn in (None, loss):
            with mica.Tuner(MODEL) as tuner:
                tuner.lora(rank=2, layers=1)
                result = tuner.train([{'text': 'The sea is blue.'}] * 4, iterations=2, batch_size=2,
                                     report_every=1, loss_fn=loss_fn)
                got.append(result.train_loss)
                self.assertGreater(tuner.trained, 0)
                self.assertEqual(sum(x.size for x in tuner.parameters().values()), tuner.trained)
        self.assertAlmostEqual(got[0], got[1], 4)

    def test_gradients_and_an_optimiser(self):
        values = [0.5, -1.0, 2.0]

        def f(x):
            return (x * x * x + mica.ops.exp(x)).sum()

        with mica.Scope():
            x = mica.asarray(values)
            got = mica.grad(f(x), [x])[0].tolist()
            after = mica.Optimizer('sgd', learning_rate=0.1).update([x], [mica.asarray(got)])[0]
            self.assertAlmostEqual(after.tolist()[1], values[1] - 0.1 * got[1], 5)
        for i, value in enumerate(values):
            step = 1e-3
            ends = []
            for sign in (1, -1):
                moved = list(values)
                moved[i] = value + sign * step
                ends.append(f(mica.asarray(moved)).item())
            self.assertAlmostEqual(got[i], (ends[0] - ends[1]) / (2 * step), 2)


class Arrays(unittest.TestCase):
    def test_values(self):
        x = mica.asarray([[1, 2, 3], [4, 5, 6]])
        self.assertEqual((x.dtype, x.shape, x.tolist()), ('i32', (2, 3), [[1, 2, 3], [4, 5, 6]]))
        for key in (0, -1, slice(1), (slice(None), 1), (Ellipsis, slice(None, None, -1)),
                    (None, 1, slice(2)), (slice(None, None, -2), slice(2, None, -1))):
            self.assertEqual(x[key].tolist(), self.index(x.tolist(), key), key)
        y = (x * 2 + 1 - x) / 2.0
        self.assertEqual(y.tolist(), [[1, 1.5, 2], [2.5, 3, 3.5]])
        self.assertEqual((1 - x).tolist()[0], [0, -1, -2])
        self.assertEqual((x > 2).tolist()[0], [False, False, True])
        self.assertEqual((x.T.astype('f32') @ x.astype('f32')).shape, (3, 3))
        self.assertEqual(x.sum().item(), 21)
        self.assertEqual(x.astype('bf16').tolist(), x.tolist())
        self.assertEqual(x.astype('f16').tolist(), x.tolist())
        self.assertIn('dtype=i32', repr(x))
        with self.assertRaises(mica.ShapeError):
            mica.asarray([[1], [2, 3]])
        with self.assertRaises(IndexError):
            x[2]

    @staticmethod
    def index(values, key):
        keys = list(key) if isinstance(key, tuple) else [key]
        if Ellipsis in keys:
            keys.remove(Ellipsis)
            keys.insert(0, slice(None))
        new = keys[0] is None
        keys = [k for k in keys if k is not None] + [slice(None)] * 2
        rows = values[keys[0]]
        if isinstance(keys[0], slice):
            rows = [row[keys[1]] for row in rows]
        else:
            rows = rows[keys[1]]
        return [rows] if new else rows

    def test_threads_share_a_scope(self):
        """What records into a scope, and what looks into it, is one thread at a time."""
        x, wrong = mica.asarray([[1.0, 2.0], [3.0, 4.0]]), []

        def work(k):
            for i in range(300):
                y = (x + float(k)) * 2 + mica.asarray([float(i), 0.0])
                want = [[2 + 2 * k + i, 4 + 2 * k], [6 + 2 * k + i, 8 + 2 * k]]
                if y.shape != (2, 2) or (i % 50 == 0 and y.tolist() != want):
                    wrong.append((k, i))

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
        self.assertEqual(wrong, [])

    def test_large_integers(self):
        for n in (2**31, 2**53 + 1, 2**63 - 1, -2**63):
            self.assertEqual(mica.asarray(n).tolist(), n)
            self.assertEqual(mica.asarray([n]).tolist(), [n])
        for n in (2**63, -2**63 - 1):
            with self.assertRaisesRegex(mica.InvalidError, 'more than 64 bits'):
                mica.asarray(n)
            with self.assertRaisesRegex(mica.InvalidError, 'more than 64 bits'):
                mica.asarray([n])
        with self.assertRaisesRegex(mica.InvalidError, 'more than 64 bits'):
            mica.asarray([1.0]).reshape(2**64 + 1)

    def test_an_error_leaves_the_scope_usable(self):
        x = mica.asarray([1.0, 2.0])
        y = x + 1
        for _ in range(2):
            with self.assertRaises(mica.ShapeError):
                x.reshape(3)
        self.assertEqual((y + x).tolist(), [3, 5])
        with self.assertRaises(mica.ClosedError), mica.Scope():
            z = x + 1
            z.scope.close()
            z.tolist()

    def test_memory_is_shared(self):
        """Addresses are the same, in and out, and the memory is kept and given back."""
        values = array.array('f', [1, 2, 3])
        x = mica.asarray(values)
        self.assertEqual(x.host().address, values.buffer_info()[0])
        with self.assertRaises(BufferError):  # it is held
            values.append(4)
        self.assertEqual((x + 1).tolist(), [2, 3, 4])
        del x
        gc.collect()
        values.append(4)
        # out by DLPack, and in again
        y = mica.asarray([[1.0, 2.0], [3.0, 4.0]]) * 2
        address = y.host().address
        z = mica.asarray(Dlpack(y))
        del y
        gc.collect()
        self.assertEqual(z.host().address, address)
        self.assertEqual(z.tolist(), [[2, 4], [6, 8]])
        device = mica.default_device()
        held = device.active_bytes
        del z
        gc.collect()
        self.assertLess(device.active_bytes, held)
        held = device.active_bytes
        for _ in range(4):  # capsules that nobody takes: one ends when the next is made
            mica.asarray([1.0] * 1000).__dlpack__()
        gc.collect()
        self.assertLess(device.active_bytes, held + 9000)
        kept = mica.asarray([5.0]).__dlpack__()
        mica.asarray([1.0]).__dlpack__()
        self.assertEqual(mica.asarray(Capsule(kept)).tolist(), [5])
        copied = mica.array(values)
        values[0] = 7
        self.assertEqual(copied.tolist()[0], 1)
        view = mica.asarray([1.0, 2.0]).host().view
        gc.collect()
        self.assertEqual((view.tolist(), view.readonly), ([1, 2], True))

    def test_a_deleter_that_sweeps(self):
        """What ends a tensor may run Python, which ends others that nobody took: each ends once."""
        dlpack, ended = mica._dlpack, []

        def end(address):
            ended.append(address)
            dlpack._sweep()

        deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(end)
        tensors = [dlpack._Managed(deleter=deleter) for _ in range(3)]
        capsules = [dlpack.capsule(ctypes.addressof(tensor), False) for tensor in tensors]
        self.assertEqual(ended, [])
        del capsules
        dlpack._sweep()
        self.assertEqual(sorted(ended), sorted(map(ctypes.addressof, tensors)))

    def test_a_tensor_ends_without_python(self):
        """What took it may end it in a thread without Python's lock, and behind Python's end."""
        program = '''
import ctypes, sys, threading
sys.path[:0] = %r
import mica
from mica import _dlpack
class Versioned:
    def __init__(self, x): self.x = x
    def __dlpack__(self, max_version): return self.x.__dlpack__(max_version=max_version)
    def __dlpack_device__(self): return 1, 0
def taken(n):
    address, versioned = _dlpack.take(Versioned(mica.asarray([1.0] * n) * 2))
    assert versioned and ctypes.c_uint64.from_address(address + 24).value == 1  # read-only
    return address, ctypes.c_void_p.from_address(address + 16).value
address, deleter = taken(1000)
device = mica.default_device()
before = device.active_bytes
work = threading.Thread(target=ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter), args=(address,))
work.start()
work.join()
print(before - device.active_bytes)
address, deleter = taken(10)
assert ctypes.CDLL(None).__cxa_atexit(ctypes.c_void_p(deleter), ctypes.c_void_p(address), None) == 0
''' % (sys.path[:1],)
        done = subprocess.run([PYTHON, '-c', program], capture_output=True, timeout=100,
                              check=False)
        self.assertTrue(done.returncode == 0 and int(done.stdout) >= 4000,
                         done.stderr.decode())

    @unittest.skipUnless(numpy, 'there is no numpy')
    def test_numpy(self):
        for dtype in ('?', 'B', 'u2', 'u4', 'u8', 'b', 'i2', 'i4', 'i8', 'f4', 'f8', 'c8'):
            x = numpy.arange(6).reshape(2, 3).astype(dtype)
            y = mica.asarray(x)
            self.assertEqual(y.host().address, x.ctypes.data)
            back = numpy.asarray(y)
            self.assertEqual(back.ctypes.data, x.ctypes.data)
            self.assertEqual((back.dtype, back.tolist()), (x.dtype, x.tolist()))
            self.assertFalse(back.flags.writeable)
        y = mica.asarray([[1.0, 2.0]]).astype('bf16')
        for back in (numpy.asarray(y), numpy.asarray(y.host())):
            self.assertEqual((back.dtype, back.shape), (numpy.dtype('V2'), (1, 2)))
        x = numpy.ones((3, 4), 'f4')
        if hasattr(numpy, 'from_dlpack'):  # from 1.22 on
            self.check_from_dlpack(x)
        self.assertEqual(mica.asarray(x.T[::2]).tolist(), x.T[::2].tolist())
        self.assertEqual(mica.asarray(x.astype('f2')).tolist(), x.tolist())

    def check_from_dlpack(self, x):
        z = numpy.from_dlpack(mica.asarray(x))
        self.assertEqual(z.ctypes.data, x.ctypes.data)
        rows = mica.asarray(x).host()
        self.assertEqual(numpy.from_dlpack(rows[2]).ctypes.data, x[2].ctypes.data)
        if numpy.lib.NumpyVersion(numpy.__version__) >= '2.1.0':  # asks for version 1
            self.assertFalse(z.flags.writeable)
        with self.assertRaisesRegex((RuntimeError, BufferError), 'dtype'):  # numpy's own error
            numpy.from_dlpack(mica.asarray([1.0]).astype('bf16'))

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ('x.safetensors', 'x.npz'):
                mica.save(folder + '/' + name, {'a': [1.0, 2.0], 'b': mica.asarray([[3]])})
                got = mica.load(folder + '/' + name)
                self.assertEqual({k: v.tolist() for k, v in got.items()},
                                 {'a': [1, 2], 'b': [[3]]})
            with self.assertRaises(mica.NotFoundError):
                mica.load(folder + '/none')


class Dlpack:
    """A tensor that has nothing but DLPack, of before version 1."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, stream=None):
        return self.x.__dlpack__()

    def __dlpack_device__(self):
        return 1, 0


class Versioned(Dlpack):
    """One that is asked for version 1."""

    def __dlpack__(self, stream=None, max_version=None):
        return self.x.__dlpack__(max_version=max_version)


class Capsule(Dlpack):
    """A capsule that was asked for before."""

    def __dlpack__(self, stream=None):
        return self.x


class Programs(unittest.TestCase):
    def test_onnx(self):
        """The outputs that onnxruntime gave, for the inputs it was given."""
        folder = ROOT / 'tests/fixtures/onnx'
        golden = mica.load(folder / 'cnn.npz')
        with mica.Program(folder / 'cnn.onnx') as program:
            names = {port.name: port for port in program.params}
            given = {name: golden['in.' + name] for name in names}
            got = program(**given)
            self.assertIs(got[0], got[program.results[0].name])
            for port in program.results:
                want = golden['out.' + port.name]
                for a, b in zip(flat(got[port.name].tolist()), flat(want.tolist())):
                    self.assertAlmostEqual(a, b, 3)
            self.assertIn(program.params[0].name, repr(program))
            with self.assertRaises(TypeError):
                program()
            if numpy:
                made = program(**{name: numpy.asarray(x) for name, x in given.items()})
                self.assertIsInstance(made[0], numpy.ndarray)
            with tempfile.TemporaryDirectory() as saved:
                program.save(saved + '/net.mica')
                with mica.Program(saved + '/net.mica') as again:
                    self.assertEqual(again(**given)[0].tolist(), got[0].tolist())


def flat(values):
    return [x for v in values for x in flat(v)] if isinstance(values, list) else [values]


class Surroundings(unittest.TestCase):
    def test_models(self):
        found = {model.name: model for model in mica.discover(ROOT / 'models')}
        self.assertEqual(found['default'].path, MODEL)
        os.environ['MICA_MODEL'] = MODEL
        try:
            self.assertEqual(mica.default_model(), MODEL)
        finally:
            del os.environ['MICA_MODEL']

    def test_progress_is_quiet_where_nobody_looks(self):
        from mica import _progress
        self.assertIsNone(_progress.bar_of(None, 'x'))
        calls = []
        mica.Model(MODEL, no_mmap=True, progress=lambda done, total: calls.append((done, total)))
        self.assertTrue(calls and calls[-1][0] == calls[-1][1])

    def test_reprs(self):
        with mica.Model(MODEL) as model, model.session() as session:
            self.assertRegex(repr(model), "Model 'default': gemma3, 4 bit.*20.5M.*2048")
            self.assertIn('0 tokens', repr(session))
            self.assertRegex(repr(model.embed('a')), r'HostArray f32 \[384\]')
        self.assertIn('cpu', repr(mica.default_device()))


if __name__ == '__main__':
    unittest.main()
